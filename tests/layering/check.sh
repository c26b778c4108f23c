#!/usr/bin/env bash
# Fails on an include that points upward, on one not written from the root, and on a file above 600 lines:
#   check.sh ROOT
set -euo pipefail
cd "$1"

find core parallel model data train tools tests -type f \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 2>/dev/null |
  LC_ALL=C sort -z | xargs -0 -r awk '
  BEGIN {
    folders = " core parallel model data train tools tests "
    allowed["core"] = " core "
    allowed["parallel"] = " core parallel "
    allowed["model"] = " core parallel model "
    allowed["data"] = " core data "
    allowed["train"] = " core parallel model data train "
    allowed["tools"] = " core parallel model data train tools "
    allowed["tests"] = folders
  }
  function report(message) {
    print FILENAME ":" FNR ": " message
    bad = 1
  }
  FNR == 1 {
    files++
    split(FILENAME, part, "/")
    folder = part[1]
  }
  FNR == 601 { report("more than 600 lines") }
  match($0, /^[ \t]*#[ \t]*include[ \t]*["<][^">]*/) {
    path = substr($0, RSTART, RLENGTH)
    quoted = path ~ /"/
    sub(/^[^"<]*["<]/, "", path)
    target = path
    sub(/\/.*/, "", target)
    ours = index(folders, " " target " ") && path ~ /\//
    if (path ~ /(^|\/)\.\.?\//)
      report("\"" path "\": includes are written from the root of the sources")
    else if (quoted && !ours && folder != "tests")
      report("\"" path "\": includes are written from the root of the sources")
    else if (ours && !index(allowed[folder], " " target " "))
      report(folder "/ must not include \"" path "\"; it may include:" allowed[folder])
  }
  END {
    if (!files) { print "no sources found"; bad = 1 }
    if (!bad) print files " files: every include points downward, none above 600 lines"
    exit bad
  }'
