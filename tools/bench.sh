#!/usr/bin/env bash
# Prints the tables of docs/benchmarks.md: training steps beside PyTorch's, pushing and pulling beside what the
# machine gives, the core time of a round, and how long a job takes to start. Ratios come from one run each.
set -euo pipefail
cd "$(dirname "$0")/.."
LENET=2000+80+100000+200+1600000+2000+20000+40  # bytes of its parameters

echo "== Training steps, images per second"
for network in lenet gluon_lenet; do
  for threads in 1 2; do
    build/bin/train_bench --network "$network" --batch-size 64 --threads "$threads"
  done
  if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
    /usr/bin/python3 tools/bench_pytorch.py --network "$network" --batch-size 64 --threads 1,2
  else
    echo "(PyTorch is not installed: python3-torch)"
  fi
done

echo "== Updates of 25 M float32, SGD with momentum, beside a plain loop"
for threads in 1 2; do
  for arrays in 1 200; do
    build/bin/update_bench --threads "$threads" --arrays "$arrays"
  done
done
echo "== Goodput, 1 worker, 1 server"
tools/launch.py -n 1 -s 1 build/bin/kv_bench --bytes 65536,1048576,4194304,16777216
echo "== Latency of one float, everything on one core"
taskset -c 0 tools/launch.py -n 1 -s 1 build/bin/kv_bench --modes push_pull --bytes 4 --keys 1 --latency-samples 20000
echo "== A synchronous round of LeNet, 2 workers, 2 servers, SGD with momentum"
tools/launch.py -n 2 -s 2 build/bin/kv_bench --modes push_pull --bytes "$LENET" --optimizer sgd --raw=false
echo "== Launch to last value of kv_tour, 1 + 2 + 2 processes, seconds"
for _ in 1 2 3 4 5; do
  start=$(date +%s%N)
  tools/launch.py -n 2 -s 2 build/bin/kv_tour --kv-store dist_sync >/dev/null
  echo "$start $(date +%s%N)" | awk '{ printf "%.2f ", ($2 - $1) / 1e9 }'
done
echo
