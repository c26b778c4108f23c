#!/usr/bin/env bash
# Installs the Debian/Ubuntu packages that are missing, after saying which. Groups: build (always), test, text.
#   tools/setup.sh [test] [text]
set -euo pipefail

build_packages=(g++ cmake ninja-build pkg-config git libfmt-dev nlohmann-json3-dev libtomlplusplus-dev libcli11-dev
  libdnnl-dev libhdf5-dev libssl-dev libutf8proc-dev libisal-dev libpcre2-dev libxxhash-dev)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev clang libclang-rt-dev hdf5-tools)
text_packages=(perl perl-doc)

fail() {
  echo "setup: error: $*" >&2
  exit 1
}

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# The interoperability tests make a virtual environment; another Python than the system's may bring all it needs.
python_makes_environments() {
  command -v python3 >/dev/null && python3 -c 'import venv, ensurepip' 2>/dev/null
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif [ -t 0 ]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}

apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 "$@" </dev/null
}

update_lists() {
  apt_get update && return
  echo "setup: apt-get update failed, trying once more" >&2
  sleep 5
  # One unreachable source must not stop an installation that the other sources can serve.
  apt_get update || echo "setup: apt-get update failed twice, going on with the lists at hand" >&2
}

wanted=("${build_packages[@]}")
for group in "$@"; do
  case "$group" in
    test)
      wanted+=("${test_packages[@]}")
      python_makes_environments || wanted+=(python3 python3-venv)
      ;;
    text) wanted+=("${text_packages[@]}") ;;
    *) fail "group '$group': accepted are test and text" ;;
  esac
done

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "setup: no apt-get here: nothing is installed. Needed, by Debian's names: ${wanted[*]}" >&2
  exit 0
fi

missing=()
for package in "${wanted[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} = 0 ]; then
  echo "setup: all ${#wanted[@]} packages are installed"
  exit 0
fi

echo "setup: will install with apt-get: ${missing[*]}"
if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
  fail "neither root nor sudo: as root, run: apt-get install ${missing[*]}"
fi
as_root true || fail "sudo does not let $(id -un) in: run it from a terminal, or as root: apt-get install ${missing[*]}"
update_lists
apt_get install -y --no-install-recommends "${missing[@]}" >/dev/null || fail "apt-get install failed: ${missing[*]}"
echo "setup: installed ${#missing[@]} packages"
