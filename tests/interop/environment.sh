#!/usr/bin/env bash
# Makes or completes the Python environment of the interoperability tests:  environment.sh FOLDER
set -euo pipefail
folder=$1
requirements=$(dirname "$0")/requirements.txt

can_make() {
  command -v "$1" >/dev/null && "$1" -c 'import venv, ensurepip' 2>/dev/null
}

if cmp -s "$requirements" "$folder/installed.txt" && "$folder/bin/python" -c 'import tokenizers' 2>/dev/null; then
  exit 0
fi
python=
for candidate in python3 /usr/bin/python3; do
  if can_make "$candidate"; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] || { echo "environment: error: no python3 with venv and ensurepip: install python3-venv" >&2; exit 1; }
rm -rf "$folder"
"$python" -m venv "$folder"
for attempt in 1 2 3; do
  if "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r "$requirements"; then
    cp "$requirements" "$folder/installed.txt"
    exit 0
  fi
  echo "environment: attempt $attempt to install $requirements failed" >&2
  sleep $((attempt * 5))
done
exit 1
