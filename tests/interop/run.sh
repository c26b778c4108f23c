#!/usr/bin/env bash
# Runs the scripts that compare files with other programs' readers and writers:  run.sh TRIREME WORK [NAME...]
# NAME is a script's name without _interop.py; all by default. The environment is WORK/venv. Fails when a package cannot be installed or a script fails.
set -uo pipefail
tests=$(cd "$(dirname "$0")" && pwd)
trireme=$(realpath "$1")
mkdir -p "$2"
work=$(realpath "$2")
shift 2
"$tests/environment.sh" "$work/venv" || exit 1

if [ $# -gt 0 ]; then
  scripts=("${@/#/$tests/}")
  scripts=("${scripts[@]/%/_interop.py}")
else
  scripts=("$tests"/*_interop.py)
fi
failures=0
for script in "${scripts[@]}"; do
  name=$(basename "$script" _interop.py)
  scratch=$work/interop/$name
  rm -rf "$scratch" && mkdir -p "$scratch"
  if "$work/venv/bin/python" "$script" --trireme "$trireme" --work "$scratch" </dev/null; then
    echo "passed: $name"
  else
    echo "FAILED: $name"
    failures=$((failures + 1))
  fi
done
[ "$failures" = 0 ]
