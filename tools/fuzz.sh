#!/usr/bin/env bash
# Runs every fuzzer for some seconds over its kept corpus, JOBS of them at a time: tools/fuzz.sh SECONDS [JOBS]
set -euo pipefail
seconds=${1:?usage: tools/fuzz.sh SECONDS [JOBS]}
jobs=${2:-$("$(dirname "$0")/cores.sh")}
cd "$(dirname "$0")/.."
cmake --preset fuzz >/dev/null
cmake --build build/fuzz -j "$jobs" --target fuzz_checkpoint fuzz_idx fuzz_cifar10 fuzz_csv fuzz_image fuzz_recordio fuzz_report \
  fuzz_safetensors fuzz_text_vectorizer fuzz_texts fuzz_compression fuzz_rows fuzz_envelope fuzz_bodies

new=$(mktemp -d)  # inputs that a run finds stay out of the kept corpus
trap 'rm -rf "$new"' EXIT

# A parser that takes 64 MiB at once does so for what a small input only claims to hold: -malloc_limit_mb.
fuzz() {
  local name=${1##*/fuzz_} found=$3
  mkdir -p "$found/$name"
  if ! "$1" -max_total_time="$2" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=64 -print_final_stats=1 \
      "$found/$name" "tests/fuzz/corpus/$name" >"$found/$name.log" 2>&1; then
    tail -n 40 "$found/$name.log"
    echo "fuzzing $name found a failure" >&2
    return 1
  fi
  echo "fuzzed $name for $2 s: $(sed -n 's/^stat::number_of_executed_units: *//p' "$found/$name.log") inputs"
}
export -f fuzz
printf '%s\0' build/fuzz/bin/fuzz_* |
  xargs -0 -P "$jobs" -I{} bash -c 'fuzz "$@"' fuzz {} "$seconds" "$new"
