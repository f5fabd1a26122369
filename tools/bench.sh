#!/usr/bin/env bash
# Prints the tables of docs/benchmarks.md and docs/benchmarks/. `bench.sh training` (tools/bench_train.py has more flags): training beside
# PyTorch's, updates, allocations, where a step goes by tools/profile_step.py. `bench.sh stores` (tools/bench_stores.py
# has more flags): pushing and pulling over every transport, beside what the machine gives and beside other programs, and how
# long a job takes to start. `bench.sh network`: overlap and compression on hosts with links of 1 Gbit/s (needs root).
# Without a name: the first two. Ratios come from one run each.
set -euo pipefail
cd "$(dirname "$0")/.."
part=${1:-all}
case "$part" in
  all | training | stores | network) ;;
  *)
    echo "bench.sh: there is no part '$part'; there are training, stores and network" >&2
    exit 2
    ;;
esac

[ "$part" != network ] || exec tools/bench_network.py
[ "$part" = stores ] || tools/bench_train.py
[ "$part" = training ] || tools/bench_stores.py
