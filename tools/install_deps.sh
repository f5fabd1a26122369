#!/usr/bin/env bash
# Installs what Sluice needs from Debian 12, by name. Says what it installs; does nothing when all is there.
#
#   tools/install_deps.sh              to build and run
#   tools/install_deps.sh --tests      and to run every test: fuzzers, and PyTorch as an independent reference
set -euo pipefail

build=(build-essential cmake ninja-build ccache pkg-config git python3
  libzmq3-dev libprotobuf-dev protobuf-compiler libgflags-dev libgoogle-glog-dev
  libdnnl-dev zlib1g-dev nlohmann-json3-dev libgtest-dev libgmock-dev)
tests=(clang libclang-rt-14-dev python3-torch python3-numpy libopenblas0-openmp)

packages=("${build[@]}")
case "${1:-}" in
  "") ;;
  --tests) packages+=("${tests[@]}") ;;
  *) echo "install_deps.sh: unknown argument '$1'; it takes --tests or nothing" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "install_deps.sh: this is not a Debian system; install these by hand: ${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install_deps.sh: not root and no sudo; as root run: apt-get install ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "Installing from Debian: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
