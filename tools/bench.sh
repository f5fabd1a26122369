#!/usr/bin/env bash
# Prints the tables of docs/benchmarks.md that this version measures: training steps beside PyTorch's, equal threads, one run.
set -euo pipefail
cd "$(dirname "$0")/.."
for network in lenet gluon_lenet; do
  for threads in 1 2; do
    build/bin/train_bench --network "$network" --batch-size 64 --threads "$threads"
  done
  /usr/bin/python3 tools/bench_pytorch.py --network "$network" --batch-size 64 --threads 1,2
done
