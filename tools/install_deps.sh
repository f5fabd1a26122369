#!/usr/bin/env bash
# Installs what Sluice needs from Debian 12, by name. Says what it installs; does nothing when all is there.
#
#   tools/install_deps.sh              to build and run
#   tools/install_deps.sh --tests      and to run every test: fuzzers, PyTorch as an independent reference, sshd,
#                                      MPI, Slurm and Grid Engine (whose services Debian starts, where it does such things);
#                                      who may not install goes on without what tests are skipped without
#   tools/install_deps.sh --develop    and to change it: golden images, profiling
#
# docs/design/dependencies.md says what each is for.
set -euo pipefail

# libdnnl-dev only recommends ocl-icd-opencl-dev, but its CMake package does not work without.
build=(build-essential cmake ninja-build ccache pkg-config git python3
  libzmq3-dev libprotobuf-dev protobuf-compiler libgflags-dev libgoogle-glog-dev
  libdnnl-dev ocl-icd-opencl-dev zlib1g-dev libpng-dev libturbojpeg0-dev nlohmann-json3-dev robin-map-dev
  libgtest-dev libgmock-dev)
tests=(python3-torch python3-numpy python3-dev python3-venv libopenblas0-openmp python3-kubernetes procps)
# For hosts of tests/cluster/labs.py, fuzzers, formatting and clang-tidy, which `make ci` alone insists on.
labs=(clang clang-format clang-tidy libclang-rt-14-dev libomp-dev iproute2 iptables libnetfilter-queue1 openssh-server openssh-client rsync tcsh fish
  openmpi-bin mpich slurmctld slurmd slurm-client munge gridengine-master gridengine-exec gridengine-client)
develop=(python3-pil python3-mpi4py valgrind strace)

case "${1:-}" in
  "") packages=("${build[@]}") ;;
  --tests) packages=("${build[@]}" "${tests[@]}" "${labs[@]}") ;;
  --develop) packages=("${build[@]}" "${tests[@]}" "${labs[@]}" "${develop[@]}") ;;
  *) echo "install_deps.sh: unknown argument '$1'; it takes --tests, --develop or nothing" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "install_deps.sh: not a Debian system, so nothing is checked; what must be there: ${packages[*]}" >&2
  exit 0
fi

installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
  grep -qx "installed $package" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    needed=()
    for package in "${missing[@]}"; do
      printf '%s\n' "${labs[@]}" | grep -qxF -- "$package" || needed+=("$package")
    done
    if [ ${#needed[@]} -eq 0 ] && [ "${SLUICE_LABS:-}" != required ]; then
      echo "install_deps.sh: not root and no sudo; tests that need these are skipped: ${missing[*]}" >&2
      exit 0
    fi
    echo "install_deps.sh: not root and no sudo; as root run:" >&2
    echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

# A machine that has just started may hold the lock for its own updates.
apt_get() {
  local quietly=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
  "${as_root[@]}" "${quietly[@]}" "$@" >/dev/null && return
  echo "install_deps.sh: 'apt-get $1' failed. Is the network there, and is this Debian 12?" >&2
  echo "  Missing: ${missing[*]}" >&2
  exit 1
}
echo "Installing from Debian: ${missing[*]}"
apt_get update
apt_get install -y --no-install-recommends "${missing[@]}"
