#!/usr/bin/env bash
# Runs every fuzzer for some seconds over its kept corpus: tools/fuzz.sh SECONDS [JOBS]
set -euo pipefail
seconds=${1:?usage: tools/fuzz.sh SECONDS [JOBS]}
jobs=${2:-$(nproc)}
cd "$(dirname "$0")/.."
cmake --preset fuzz >/dev/null
cmake --build build/fuzz -j "$jobs" --target fuzz_idx fuzz_cifar10 fuzz_csv fuzz_image fuzz_recordio fuzz_safetensors \
  fuzz_texts fuzz_envelope fuzz_bodies

new=$(mktemp -d)  # inputs that a run finds stay out of the kept corpus
trap 'rm -rf "$new"' EXIT
for program in build/fuzz/bin/fuzz_*; do
  name=${program##*/fuzz_}
  mkdir -p "$new/$name"
  echo "fuzzing $name for $seconds s"
  if ! "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
      "$new/$name" "tests/fuzz/corpus/$name" >"$new/log" 2>&1; then
    tail -n 40 "$new/log"
    echo "fuzzing $name found a failure" >&2
    exit 1
  fi
  grep -E "number_of_executed_units" "$new/log" || true
done
