#!/usr/bin/env bash
# Configures and builds with all cores:  tools/build.sh FOLDER TARGET [CMake options...]   (FOLDER under the source tree)
# A folder made for other sources, another processor or another compiler is made anew: its code may not run here.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
target=$2
shift 2

fingerprint() {
  pwd -P
  grep -m1 '^model name' /proc/cpuinfo || true
  grep -m1 -E '^(flags|Features)' /proc/cpuinfo || true
  c++ --version | head -n 1
}

# Compiling takes up to about 1 GiB a job.
count_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
  if [ "$memory" -lt "$cores" ]; then cores=$((memory > 1 ? memory : 1)); fi
  echo "$cores"
}

stamp=$folder/fingerprint.txt
if [ -e "$folder/CMakeCache.txt" ] && ! fingerprint | cmp -s - "$stamp"; then
  echo "build: $folder was made for other sources, another processor or compiler: starting anew"
  rm -rf "$folder"
fi
mkdir -p "$folder"
fingerprint >"$stamp"

launcher=()
if command -v ccache >/dev/null; then
  # "native" means another thing on another processor, which ccache does not see.
  export CCACHE_EXTRAFILES=$PWD/$stamp
  launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi
cmake -S . -B "$folder" -G Ninja "${launcher[@]}" "$@"
cmake --build "$folder" --target "$target" -j "$(count_jobs)"
