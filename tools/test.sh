#!/usr/bin/env bash
# Sets up, builds and runs all tests; the last line counts them. TRIREME_FUZZ_SECONDS (60) is the time of each fuzz target.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# HDF5 itself loses a block when a write fails; what Trireme loses is still reported.
export LSAN_OPTIONS=suppressions=$PWD/tests/leaks.txt:print_suppressions=0
export TRIREME_FUZZ_SECONDS=${TRIREME_FUZZ_SECONDS:-60}
passed=0
failed=0
skipped=0

stage() {
  printf '\n== %s (at %d s)\n' "$1" "$SECONDS"
}

# expect NAME COMMAND...: one check by exit status.
expect() {
  local name=$1
  shift
  if "$@" </dev/null; then
    passed=$((passed + 1))
    return 0
  fi
  failed=$((failed + 1))
  echo "FAILED: $name"
  return 1
}

# attribute NAME FILE: a count in the first element of a JUnit file.
attribute() {
  grep -o -m1 "$1=\"[0-9]*\"" "$2" | head -n 1 | tr -dc '0-9'
}

# run_ctest FOLDER JOBS [options...]: adds the results up; a run without results or without tests is a failure.
run_ctest() {
  local folder=$1 jobs=$2 results=$PWD/$1/results.xml total bad omitted status
  shift 2
  rm -f "$results"
  ctest --test-dir "$folder" -j "$jobs" --output-on-failure --no-tests=error --output-junit "$results" "$@" </dev/null |
    grep -v -E '^ *Start +[0-9]+:|^ *[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed '
  status=${PIPESTATUS[0]}
  total=$(attribute tests "$results")
  bad=$(attribute failures "$results")
  omitted=$(($(attribute skipped "$results") + $(attribute disabled "$results")))
  if [ "${total:-0}" = 0 ] || { [ "$status" != 0 ] && [ "$bad" = 0 ]; }; then
    failed=$((failed + 1))
    echo "FAILED: ctest in $folder gave status $status and ${total:-no} results"
    return
  fi
  passed=$((passed + total - bad - omitted))
  failed=$((failed + bad))
  skipped=$((skipped + omitted))
}

cores=$(nproc)
stage "packages"
expect setup tools/setup.sh test || exit 1

stage "build"
if expect build tools/build.sh build all -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=ON; then
  stage "unit tests"
  run_ctest build "$cores"
fi

stage "format and interoperability"
if expect "Python environment" tests/interop/environment.sh build/venv; then
  expect format tools/format.sh --check build/venv/bin/clang-format
  for script in tests/interop/*_interop.py; do
    [ -e "$script" ] || continue
    name=$(basename "$script" _interop.py)
    expect "interop $name" tests/interop/run.sh build/tools/trireme build "$name"
  done
fi

stage "build with address and undefined-behaviour sanitizers"
if expect "sanitizer build" tools/build.sh build-asan all -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1" -DTRIREME_SANITIZE=address,undefined -DBUILD_TESTING=ON; then
  stage "unit tests with sanitizers"
  run_ctest build-asan "$cores" --label-exclude '^(slow|sources)$'
fi

stage "fuzzing: ${TRIREME_FUZZ_SECONDS} s a target"
if expect "fuzz build" tools/build.sh build-fuzz fuzz_programs -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1" -DCMAKE_CXX_COMPILER=clang++ -DTRIREME_FUZZ=ON -DBUILD_TESTING=ON; then
  run_ctest build-fuzz 2 --label-regex '^fuzz$'
fi

printf '\nall stages took %d s\n' "$SECONDS"
if [ "$skipped" -gt 0 ]; then
  echo "$passed passed, $failed failed, $skipped skipped"
else
  echo "$passed passed, $failed failed"
fi
[ "$failed" = 0 ]
