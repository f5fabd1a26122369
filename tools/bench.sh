#!/usr/bin/env bash
# Prints the tables of docs/benchmarks.md. `bench.sh training` (tools/bench_train.py has more flags): training beside
# PyTorch's, updates, allocations, where a step goes by tools/profile_step.py. `bench.sh stores`: pushing and pulling
# beside what the machine gives, and how long a job takes to start. Without a name: both. Ratios come from one run each.
set -euo pipefail
cd "$(dirname "$0")/.."
part=${1:-all}
case "$part" in
  all | training | stores) ;;
  *)
    echo "bench.sh: there is no part '$part'; there are training and stores" >&2
    exit 2
    ;;
esac

[ "$part" = stores ] || tools/bench_train.py
[ "$part" = training ] && exit

echo "== Goodput, 1 worker, 1 server"
tools/launch.py -n 1 -s 1 build/bin/kv_bench --bytes 65536,1048576,4194304,16777216
echo "== Latency of one float, everything on one core, five times"
for _ in 1 2 3 4 5; do
  taskset -c 0 tools/launch.py -n 1 -s 1 build/bin/kv_bench --modes push_pull --bytes 4 --keys 1 --latency-samples 20000
done
echo "== Compressed gradients"
build/bin/codec_bench
echo "== Launch to last value of kv_tour, 1 + 2 + 2 processes, seconds"
for _ in 1 2 3 4 5; do
  start=$(date +%s%N)
  tools/launch.py -n 2 -s 2 build/bin/kv_tour --kv-store dist_sync >/dev/null
  echo "$start $(date +%s%N)" | awk '{ printf "%.2f ", ($2 - $1) / 1e9 }'
done
echo
