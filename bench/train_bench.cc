// Measures the images per second of training steps: forward, backward and SGD update. The data are random
// numbers unless --loader is given, and the weights are updated without a store unless --kv-store names one.
// tools/bench_pytorch.py measures the same in PyTorch. Instead of the rate, --profile prints the time by
// operation, and --trace how computation and communication overlap.
//
//   build/bin/train_bench --network lenet --threads 2
//   tools/launch.py -n 2 -s 1 build/bin/train_bench --kv-store dist_sync
#include <gflags/gflags.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "allocations.h"
#include "base/file.h"
#include "base/strings.h"
#include "machine.h"
#include "profile.h"
#include "runtime/runtime.h"
#include "sluice/error.h"
#include "sluice/flags.h"
#include "sluice/runtime.h"
#include "sluice/store_type.h"
#include "step_trace.h"
#include "stream_watch.h"
#include "train_load.h"

DEFINE_string(
    network, "lenet",
    "mlp, lenet, lenet_avg, gluon_lenet, resnet20, text_mean, text_cnn, text_lstm or text_gru; or one "
    "recurrent layer of 200 units over 35 steps: lstm_200, gru_200 or rnn_200 (tanh)");
DEFINE_string(dtype, "float32", "type of weights and gradients: float32, or bfloat16 with a --kv-store");
DEFINE_int32(batch_size, 64, "images per step and worker");
DEFINE_int32(threads, 1, "threads of the device");
DEFINE_int32(steps, 30, "steps per repeat");
DEFINE_int32(repeats, 5, "the median of these is reported");
DEFINE_string(kv_store, "",
              "type of a store whose Trainer updates; empty: SGD on the parameters' own stream");
DEFINE_bool(
    loader, false,
    "take batches from a DataLoader over synthetic images, and report how long steps waited for them");
DEFINE_bool(layer_by_layer, false,
            "call each layer by itself, so that no neighbours run in one pass: what that costs");
DEFINE_bool(overlap, true,
            "with a --kv-store: push each gradient while backward goes on and wait for each weight where "
            "forward needs it, first layers first; false: push when backward has ended, without priorities, "
            "and wait for all weights");
DEFINE_string(gc_type, "none",
              "with --kv-store dist_*: what pushes send; none, 2bit, 1bit, fp16, bf16 or topk");
DEFINE_double(gc_threshold, 2, "the threshold of 2bit and 1bit");
DEFINE_double(gc_ratio, 0.01, "the ratio of topk");
DEFINE_string(gc_weights, "none", "with --kv-store dist_*: how weights come back; none, fp16 or bf16");
DEFINE_int32(gpu, -1, "with a --kv-store: the GPU that computes; -1: a CPU");
DEFINE_bool(profile, false, "print where the time of a step goes, by operation, and measure nothing else");
DEFINE_string(costs, "",
              "with --profile: write to this file what each operation has to do by its shapes, what this "
              "machine can do at most, and how often threads slept; tools/profile_step.py reads it");
DEFINE_bool(trace, false,
            "with --kv-store dist_sync or dist_device_sync: print how backward, pushes, pulls and the next "
            "forward overlap, and measure nothing else");
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

GradientCompression Compressions() {
  return {.type = CompressionFromName(FLAGS_gc_type),
          .weights = CompressionFromName(FLAGS_gc_weights),
          .threshold = static_cast<float>(FLAGS_gc_threshold),
          .ratio = static_cast<float>(FLAGS_gc_ratio)};
}

void CheckFlags() {
  for (const auto& [name, value, least] :
       {std::tuple("batch-size", FLAGS_batch_size, 1), std::tuple("threads", FLAGS_threads, 1),
        std::tuple("steps", FLAGS_steps, 1), std::tuple("repeats", FLAGS_repeats, 1),
        std::tuple("allocation-sites", FLAGS_allocation_sites, 0)}) {
    if (value >= least) continue;
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("--", name, " is ", value, "; it must be at least ", least));
  }
  if (FLAGS_dtype != "float32" && FLAGS_dtype != "bfloat16") {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("--dtype is '", FLAGS_dtype, "'; it takes float32 or bfloat16"));
  }
  if (FLAGS_dtype == "bfloat16" && FLAGS_kv_store.empty())
    throw Error(ErrorCode::kInvalidArgument, "--dtype bfloat16 needs a --kv-store, which keeps the masters");
  if (FLAGS_gpu < -1 || (FLAGS_gpu >= 0 && (FLAGS_kv_store.empty() || FLAGS_profile))) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("--gpu is ", FLAGS_gpu,
                       "; it is a GPU's number, with a --kv-store (device) and without "
                       "--profile, which looks at CPUs"));
  }
  if (FLAGS_trace && (FLAGS_kv_store.empty() || !StoreType::Parse(FLAGS_kv_store).distributed ||
                      StoreType::Parse(FLAGS_kv_store).async)) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("--trace follows rounds: --kv-store must be dist_sync or dist_device_sync, and is '",
                       FLAGS_kv_store, "'"));
  }
  if (FLAGS_trace && FLAGS_steps < 3)
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("--steps is ", FLAGS_steps, "; --trace needs at least 3: the ends do not count"));
  if (FLAGS_profile && FLAGS_trace)
    throw Error(ErrorCode::kInvalidArgument, "--profile and --trace are two runs");
  if (!FLAGS_costs.empty() && !FLAGS_profile)
    throw Error(ErrorCode::kInvalidArgument, "--costs needs --profile, whose operations it is about");
  if (const std::string why = InvalidReason(Compressions()); !why.empty())
    throw Error(ErrorCode::kInvalidArgument, why);
  if (FLAGS_count_allocations && !CanCountAllocations()) {
    throw Error(ErrorCode::kInvalidArgument,
                "--count-allocations needs a build without sanitizers, which have a malloc of their own");
  }
}

// Bytes of gradients and weights that the servers have received and sent so far; 0 without servers.
struct Exchanged {
  uint64_t in = 0, out = 0;
};
Exchanged ExchangedSoFar(const TrainLoad& load) {
  Exchanged sum;
  if (FLAGS_kv_store.empty() || !StoreType::Parse(FLAGS_kv_store).distributed) return sum;
  if (load.rank() == 0) {
    for (const auto& [process, counters] : runtime::Runtime::Default()->Node()->Stats(30s)) {
      const auto of = [&counters](const char* name) {
        const auto it = counters.find(name);
        return it == counters.end() ? 0 : it->second;
      };
      sum.in += of("bytes_in");
      sum.out += of("bytes_out");
    }
  }
  load.store()->Barrier();  // no worker pushes while worker 0 reads the counters
  return sum;
}

nlohmann::json MeasureRate(TrainLoad& load) {
  std::vector<double> rates;
  const Exchanged before = ExchangedSoFar(load);
  for (int repeat = 0; repeat < FLAGS_repeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    load.Run(FLAGS_steps);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    rates.push_back(static_cast<double>(load.num_workers()) * FLAGS_batch_size * FLAGS_steps /
                    elapsed.count());
  }
  std::sort(rates.begin(), rates.end());
  const Exchanged after = ExchangedSoFar(load);
  const double pushes = static_cast<double>(load.num_workers()) * FLAGS_steps * FLAGS_repeats;
  return {{"framework", "sluice"},
          {"network", FLAGS_network},
          {"parameters", load.CountParameters()},
          {"dtype", FLAGS_dtype},
          {"kv_store", FLAGS_kv_store},
          {"workers", load.num_workers()},
          {"batch_size", FLAGS_batch_size},
          {"threads", FLAGS_threads},
          {"gpu", FLAGS_gpu},
          {"pushed_bytes", static_cast<double>(after.in - before.in) / pushes},
          {"pulled_bytes", static_cast<double>(after.out - before.out) / pushes},
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

nlohmann::json LoaderWaits(const TrainLoad& load) {
  std::vector<Duration> waits = load.loader_waits();
  std::sort(waits.begin(), waits.end());
  return {{"loader_wait_p50_us", ToSeconds(waits[waits.size() / 2]) * 1e6},
          {"loader_wait_max_us", ToSeconds(waits.back()) * 1e6}};
}

// Replaces the default devices, and configures the new ones as the runtime has configured the previous ones
// from the environment.
void UseDevicesOfThisRun(std::shared_ptr<OperationWatcher> watcher) {
  UseDevices(FLAGS_threads, std::move(watcher));
  Devices::Default()->SetMemory(runtime::Runtime::Default()->memory());
  const runtime::JobConfig& config = runtime::Runtime::Default()->config();
  Devices::Default()->SetMultipliesBFloat16(config.multiplies_bfloat16);
  Devices::Default()->SetMultipliesTFloat32(config.multiplies_tfloat32);
}

int WarmUpSteps() {
  return std::max(3, FLAGS_steps / 5);
}

TrainLoadOptions LoadOptions() {
  return {.network = FLAGS_network,
          .batch_size = FLAGS_batch_size,
          .dtype = FLAGS_dtype == "bfloat16" ? DType::kBFloat16 : DType::kFloat32,
          .kv_store = FLAGS_kv_store,
          .context = FLAGS_gpu < 0 ? cpu(0) : gpu(FLAGS_gpu),
          .loader = FLAGS_loader,
          .layer_by_layer = FLAGS_layer_by_layer,
          .overlap = FLAGS_overlap,
          .compression = Compressions()};
}

void Print(const TrainLoad& load, const std::string& text) {
  if (load.rank() != 0) return;
  std::cout << text << std::flush;
  if (!FLAGS_json.empty()) WriteFileAtomically(FLAGS_json, {AsBytes(text)}).OrThrow();
}

void Measure() {
  UseDevicesOfThisRun(nullptr);
  TrainLoad load(LoadOptions());
  load.Run(WarmUpSteps());
  load.ForgetWaits();
  nlohmann::json result = MeasureRate(load);
  if (FLAGS_loader) result.update(LoaderWaits(load));
  if (FLAGS_count_allocations) result.update(CountAllocations(load));
  Print(load, result.dump() + "\n");
}

nlohmann::json ToJson(const Profile& profile, Duration elapsed,
                      const std::map<std::string, uint64_t>& switches) {
  nlohmann::json operations = nlohmann::json::array(), sleeps = nlohmann::json::object();
  for (const Profile::Row& row : profile.rows(true)) {
    operations.push_back({{"what", row.what},
                          {"shape", row.shape},
                          {"calls", static_cast<double>(row.calls) / FLAGS_steps},
                          {"us", ToSeconds(row.time) * 1e6 / FLAGS_steps},
                          {"flops", row.flops / FLAGS_steps},
                          {"bytes", row.bytes / FLAGS_steps}});
  }
  for (const auto& [thread, count] : switches) sleeps[thread] = static_cast<double>(count) / FLAGS_steps;
  const Limits limits = MeasureLimits();
  return {{"network", FLAGS_network},
          {"batch_size", FLAGS_batch_size},
          {"threads", FLAGS_threads},
          {"steps", FLAGS_steps},
          {"step_us", ToSeconds(elapsed) * 1e6 / FLAGS_steps},
          {"operations", operations},
          {"sleeps", sleeps},
          {"gflops", limits.gflops},
          {"memory_gbytes", limits.memory_gbytes},
          {"cache_gbytes", limits.cache_gbytes}};
}

void PrintProfile() {
  const auto profile = std::make_shared<Profile>();
  UseDevicesOfThisRun(profile);
  TrainLoad load(LoadOptions());
  load.Run(WarmUpSteps());
  profile->Clear();
  const std::map<std::string, uint64_t> before = VoluntarySwitches();
  const auto start = std::chrono::steady_clock::now();
  load.Run(FLAGS_steps);
  const Duration elapsed = std::chrono::steady_clock::now() - start;
  std::map<std::string, uint64_t> switches = VoluntarySwitches();
  for (const auto& [thread, count] : before) switches[thread] -= std::min(count, switches[thread]);
  Print(load, profile->Table(FLAGS_steps, elapsed));
  if (FLAGS_costs.empty() || load.rank() != 0) return;
  const std::string text = ToJson(*profile, elapsed, switches).dump() + "\n";
  WriteFileAtomically(FLAGS_costs, {AsBytes(text)}).OrThrow();
}

void PrintTrace(const std::shared_ptr<StepTrace>& trace) {
  UseDevicesOfThisRun(trace);
  runtime::Runtime::Default()->TraceWith(trace);
  TrainLoad load(LoadOptions());
  load.Run(WarmUpSteps());
  load.ForgetWaits();
  trace->Start();
  for (int i = 0; i < FLAGS_steps; ++i) {
    StepTrace::MarkStep();
    load.Step();
  }
  load.Drain();
  std::string report = trace->Report(load.PushedKeys());
  if (FLAGS_loader) report += LoaderWaits(load).dump() + "\n";
  Print(load, report);
}

}  // namespace

int main(int argc, char** argv) {
  RestartWithBriefSpins(argc, argv);
  const auto trace = std::make_shared<StepTrace>();  // outlives RunProgram, in which the worker reports to it
  return RunProgram(argc, argv, [&] {
    ParseFlags(argc, argv, "train_bench: images per second of training steps on one CPU device");
    CheckFlags();
    FLAGS_trace ? PrintTrace(trace) : FLAGS_profile ? PrintProfile() : Measure();
  });
}
