#!/usr/bin/env bash
# Makes a Python environment in FOLDER, in which the package sluice is built and tested: the system's Python and packages,
# what pyproject.toml asks PyPI for, and mypy. Does nothing when it is there.
#
#   tools/python_env.sh FOLDER
set -euo pipefail
[ $# -eq 1 ] || { echo "Usage: tools/python_env.sh FOLDER" >&2; exit 2; }
packages=(nanobind==3.1.0 scikit-build-core==1.1.0 mypy==2.4.1)
[ "$(cat "$1/packages" 2>/dev/null)" != "${packages[*]}" ] || exit 0
/usr/bin/python3 -m venv --system-site-packages "$1"
"$1/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"
echo "${packages[*]}" >"$1/packages"
