#!/usr/bin/env bash
# Installs a wheel in an empty environment and runs a job with it from another folder. Holds that everything in it finds its
# libraries in the wheel itself, or among those of every Linux.
#
#   tools/try_wheel.sh WHEEL
set -euo pipefail
[ $# -eq 1 ] || { echo "Usage: tools/try_wheel.sh WHEEL" >&2; exit 2; }
wheel=$(realpath "$1")
most=25  # MiB, of the wheel

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
/usr/bin/python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check "$wheel"

size=$(($(stat -c %s "$wheel") >> 20))
[ $size -le $most ] || { echo "try_wheel.sh: $wheel has $size MiB; at most $most" >&2; exit 1; }
package=$(env/bin/python -c 'import pathlib, sluice; print(pathlib.Path(sluice.__file__).parent)')
common='(linux-vdso|/lib64/ld-linux|lib(c|m|z|dl|rt|resolv|pthread|gcc_s|stdc\+\+)\.so)'
for file in "$package"/_core*.so "$package"/_installed/bin/sluice_{server,scheduler}; do
  needed=$(ldd "$file")
  outside=$(grep -v "$folder" <<<"$needed" | grep -vE "^[[:space:]]*$common" || true)
  [ -z "$outside" ] || { printf 'try_wheel.sh: %s needs what the wheel does not have:\n%s\n' "$file" "$outside" >&2; exit 1; }
done

cat >train.py <<'PYTHON'
import numpy as np
import sluice

kv = sluice.create("dist_sync")
kv.init("w", np.zeros(3, np.float32))
print(kv.pushpull("w", np.full(3, kv.rank + 1, np.float32)).tolist())
PYTHON
output=$(env -i PATH="$folder/env/bin:/usr/bin:/bin" HOME="$folder" sluice launch -n 2 -s 2 python train.py)
[ "$(grep -c '\[3.0, 3.0, 3.0\]$' <<<"$output")" -eq 2 ] || { printf 'try_wheel.sh: the job printed\n%s\n' "$output" >&2; exit 1; }
echo "$wheel: $size MiB, installed alone, and a job of 2 workers and 2 servers ran"
