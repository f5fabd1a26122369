// Images per second of training steps: forward, backward and SGD update on random data; no loader, and no
// store unless --kv-store names one. tools/bench_pytorch.py measures the same in PyTorch.
//
//   build/bin/train_bench --network lenet --threads 2
//   tools/launch.py -n 2 -s 1 build/bin/train_bench --kv-store dist_sync
#include <gflags/gflags.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "allocations.h"
#include "base/file.h"
#include "base/strings.h"
#include "runtime/flags.h"
#include "sluice/error.h"
#include "sluice/runtime.h"
#include "tensor/devices.h"
#include "train_load.h"

DEFINE_string(network, "lenet", "mlp, lenet, lenet_avg, gluon_lenet, resnet20, text_mean or text_cnn");
DEFINE_int32(batch_size, 64, "images per step and worker");
DEFINE_int32(threads, 1, "threads of the device");
DEFINE_int32(steps, 30, "steps per repeat");
DEFINE_int32(repeats, 5, "the median of these is reported");
DEFINE_string(kv_store, "",
              "type of a store whose Trainer updates; empty: SGD on the parameters' own stream");
DEFINE_bool(count_allocations, false,
            "count what a step takes from the heap, by who asks for it, in steps that are not timed");
DEFINE_int32(
    allocation_sites, 0,
    "with --count-allocations: print so many places in the code, too, innermost frame first; addr2line "
    "-Cfpie build/bin/train_bench names them");
DEFINE_string(json, "", "write the result object to this file");

namespace {

using namespace sluice;
using namespace sluice::bench;

void CheckFlags() {
  for (const auto& [name, value, least] :
       {std::tuple("batch-size", FLAGS_batch_size, 1), std::tuple("threads", FLAGS_threads, 1),
        std::tuple("steps", FLAGS_steps, 1), std::tuple("repeats", FLAGS_repeats, 1),
        std::tuple("allocation-sites", FLAGS_allocation_sites, 0)}) {
    if (value >= least) continue;
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("--", name, " is ", value, "; it must be at least ", least));
  }
  if (FLAGS_count_allocations && !CanCountAllocations()) {
    throw Error(ErrorCode::kInvalidArgument,
                "--count-allocations needs a build without sanitizers, which have a malloc of their own");
  }
}

nlohmann::json MeasureRate(TrainLoad& load) {
  std::vector<double> rates;
  for (int repeat = 0; repeat < FLAGS_repeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    load.Run(FLAGS_steps);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    rates.push_back(static_cast<double>(load.num_workers()) * FLAGS_batch_size * FLAGS_steps /
                    elapsed.count());
  }
  std::sort(rates.begin(), rates.end());
  return {{"framework", "sluice"},
          {"network", FLAGS_network},
          {"parameters", load.CountParameters()},
          {"kv_store", FLAGS_kv_store},
          {"workers", load.num_workers()},
          {"batch_size", FLAGS_batch_size},
          {"threads", FLAGS_threads},
          {"images_per_sec", rates[rates.size() / 2]},
          {"best_images_per_sec", rates.back()}};
}

void PrintSites() {
  int left = FLAGS_allocation_sites;
  for (const AllocationSite& site : AllocationSites()) {
    if (left-- == 0) break;
    std::fprintf(stderr, "%8.2f per step, %.0f bytes each, %s: %s\n",
                 static_cast<double>(site.count.calls) / FLAGS_steps,
                 static_cast<double>(site.count.bytes) / static_cast<double>(site.count.calls),
                 Name(site.who), StrJoin(site.frames, " ").c_str());
  }
}

nlohmann::json CountAllocations(TrainLoad& load) {
  StartCountingAllocations();
  load.Run(FLAGS_steps);
  StopCountingAllocations();
  nlohmann::json calls, bytes;
  for (const AllocatedBy who : kAllocators) {
    calls[Name(who)] = static_cast<double>(CountOf(who).calls) / FLAGS_steps;
    bytes[Name(who)] = static_cast<double>(CountOf(who).bytes) / FLAGS_steps;
  }
  PrintSites();
  return {{"allocations_per_step", calls}, {"allocated_bytes_per_step", bytes}};
}

void Measure() {
  Devices::Default()->SetThreadsPerCpuContext(FLAGS_threads);
  TrainLoad load({FLAGS_network, FLAGS_batch_size, FLAGS_kv_store});
  load.Run(std::max(3, FLAGS_steps / 5));
  nlohmann::json result = MeasureRate(load);
  if (FLAGS_count_allocations) result.update(CountAllocations(load));
  if (load.rank() != 0) return;
  const std::string line = result.dump() + "\n";
  std::cout << line << std::flush;
  if (!FLAGS_json.empty()) WriteFileAtomically(FLAGS_json, {AsBytes(line)}).OrThrow();
}

}  // namespace

int main(int argc, char** argv) {
  return RunProgram(argc, argv, [&] {
    runtime::ParseFlags(argc, argv, "train_bench: images per second of training steps on one CPU device");
    CheckFlags();
    Measure();
  });
}
