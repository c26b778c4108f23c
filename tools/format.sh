#!/usr/bin/env bash
# Formats the tracked C++ files, or with --check fails on those that differ:  tools/format.sh [--check] [CLANG-FORMAT]
# Versions format differently; the check uses the one of tests/interop/requirements.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
if [ "${1:-}" = --check ]; then
  mode=(--dry-run -Werror)
  shift
fi
mapfile -d '' files < <(git ls-files -z '*.h' '*.cpp' '*.cu' '*.cuh')
[ ${#files[@]} -gt 0 ] || { echo "format: no tracked C++ files"; exit 1; }
"${1:-clang-format}" "${mode[@]}" "${files[@]}"
echo "format: ${#files[@]} files"
