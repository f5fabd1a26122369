// Goodput, latency and processor time of pushing and pulling, beside what the machine gives without a
// parameter server in between.
//
//   tools/launch.py -n 1 -s 1 build/bin/kv_bench --modes push_then_pull --bytes 65536,1048576
#include <gflags/gflags.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "base/file.h"
#include "base/strings.h"
#include "kv_load.h"
#include "runtime/flags.h"
#include "runtime/process.h"
#include "runtime/runtime.h"
#include "runtime/worker_node.h"
#include "sluice/error.h"
#include "sluice/runtime.h"
#include "yardstick.h"

DEFINE_string(modes, "push,pull,push_pull,push_then_pull", "What to measure, in this order.");
DEFINE_string(bytes, "4,65536,1048576,4194304,16777216",
              "Sizes of the keys, in bytes; multiples of 4. An entry like 2000+80 is one "
              "measurement over a key of each size, as a model's parameters.");
DEFINE_int64(keys, 0, "How many keys; 0: as many as fill the working set.");
DEFINE_int64(max_keys, 4096, "At most so many keys when --keys is 0.");
DEFINE_int64(working_set, 512 << 20, "Bytes of all gradients and results; the same for the raw figures.");
DEFINE_string(
    kv_store, "dist_sync",
    "Type of the store: local, device, dist_sync, dist_device_sync, dist_async, dist_device_async.");
DEFINE_string(optimizer, "accumulate",
              "What the store does with pushes: none (assign the sum), accumulate, sgd (momentum 0.9).");
DEFINE_double(seconds, 0.5, "Of each repeat, about.");
DEFINE_int32(repeats, 5, "The median of these counts.");
DEFINE_int32(latency_samples, 300, "Operations, one at a time, for p50 and p99.");
DEFINE_bool(raw, true, "Measure the machine as well: raw TCP, raw ZeroMQ, memory copies.");
DEFINE_string(json, "", "Write one object per line and measurement to this file (worker 0).");

namespace {

using namespace sluice;
using namespace sluice::bench;
using CountersByProcess = std::map<std::string, wire::Counters>;

[[noreturn]] void Refuse(const std::string& flag, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, StrCat("flag --", flag, " ", why, "; --help lists every flag"));
}

// The keys of each measurement.
std::vector<std::vector<int64_t>> SizesFlag() {
  std::vector<std::vector<int64_t>> sizes;
  for (const std::string& entry : StrSplit(FLAGS_bytes, ',')) {
    sizes.emplace_back();
    for (const std::string& text : StrSplit(entry, '+')) {
      const auto size = ParseInt(text);
      if (!size || *size < 4 || *size % 4 != 0 || *size > FLAGS_working_set)
        Refuse("bytes", StrCat("names '", text, "'; a size is a multiple of 4, at most --working-set"));
      sizes.back().push_back(*size);
    }
    if (sizes.back().size() > 1) continue;
    const int64_t filling = FLAGS_working_set / 2 / sizes.back().front();
    sizes.back().resize(
        static_cast<size_t>(FLAGS_keys > 0 ? FLAGS_keys : std::clamp(filling, int64_t{1}, FLAGS_max_keys)),
        sizes.back().front());
  }
  return sizes;
}

int64_t Largest(const std::vector<int64_t>& sizes) {
  return *std::max_element(sizes.begin(), sizes.end());
}

void CheckFlags() {
  SizesFlag();
  for (const std::string& mode : StrSplit(FLAGS_modes, ',')) ModeFromName(mode);
  if (UpdateFromName(FLAGS_optimizer) == Update::kNone && FLAGS_kv_store.find("async") != std::string::npos)
    Refuse("optimizer", "is none, but an async store updates nothing without one");
  if (FLAGS_keys < 0) Refuse("keys", StrCat("is ", FLAGS_keys));
  if (FLAGS_max_keys < 1) Refuse("max-keys", StrCat("is ", FLAGS_max_keys));
  if (FLAGS_seconds <= 0) Refuse("seconds", StrCat("is ", FLAGS_seconds));
  if (FLAGS_repeats < 1) Refuse("repeats", StrCat("is ", FLAGS_repeats));
  if (FLAGS_latency_samples < 1)
    Refuse("latency-samples", StrCat("is ", FLAGS_latency_samples, "; it must be at least 1"));
}

class Bench {
 public:
  explicit Bench(Yardstick* yardstick)
      : yardstick_(yardstick),
        store_(KVStore::Create(FLAGS_kv_store)),
        exchange_(store_, UpdateFromName(FLAGS_optimizer)) {
    SetUpdate(*store_, UpdateFromName(FLAGS_optimizer));
    store_->Barrier();
  }

  void Run() {
    if (IsFirst()) PrintHead();
    for (const std::vector<int64_t>& bytes : SizesFlag()) {
      if (yardstick_ != nullptr) MeasureRaw(Largest(bytes));
      store_->Barrier();
      for (const std::string& mode : StrSplit(FLAGS_modes, ',')) Measure(ModeFromName(mode), bytes);
    }
    if (IsFirst() && !FLAGS_json.empty()) WriteFileAtomically(FLAGS_json, {AsBytes(lines_)}).OrThrow();
  }

 private:
  bool IsFirst() const { return store_->rank() == 0; }
  bool IsDist() const { return FLAGS_kv_store.starts_with("dist"); }

  void MeasureRaw(int64_t bytes) {
    RawOptions options;
    options.message_bytes = static_cast<size_t>(bytes);
    options.working_set = static_cast<size_t>(FLAGS_working_set);
    options.round_trips = raw_.zmq_rtt_us == 0;  // of 4 bytes, once
    const double rtt = raw_.zmq_rtt_us;
    raw_ = yardstick_->Measure(options);
    if (!options.round_trips) raw_.zmq_rtt_us = rtt;
    PrintRaw("raw TCP, 2 ways", bytes, raw_.tcp_two_streams_gbit);
    PrintRaw("raw ZeroMQ", bytes, raw_.zmq_gbit);
    PrintRaw("memory copy", bytes, raw_.memcpy_gbyte * 8);
    if (options.round_trips) std::printf("raw ZeroMQ round trip of 4 bytes: %.1f us\n", raw_.zmq_rtt_us);
    std::fflush(stdout);
  }

  // Processor time, so far, of the processes of the job; of the workers only this one.
  CountersByProcess Snapshot() {
    CountersByProcess counters;
    if (IsDist() && IsFirst())
      counters = runtime::Runtime::Default()->Node()->Stats(std::chrono::seconds(30));
    counters[StrCat("worker ", store_->rank())] = runtime::ProcessCounters();
    return counters;
  }

  void Measure(Mode mode, const std::vector<int64_t>& bytes) {
    LoadOptions options;
    options.mode = mode;
    options.bytes = bytes;
    options.seconds = FLAGS_seconds;
    options.repeats = FLAGS_repeats;
    options.latency_samples = FLAGS_latency_samples;
    std::vector<CountersByProcess> snapshots;
    Load load(store_, options, exchange_);
    const LoadFigures figures = load.Run([&] { snapshots.push_back(Snapshot()); });
    const std::map<std::string, double> cpu = CpuSeconds(snapshots);
    if (!IsFirst()) return;
    nlohmann::json line = Line(options, figures);
    double all = 0;
    for (const auto& [process, seconds] : cpu) {
      line["cpu_s_per_gb"][process] = seconds / figures.gbyte;
      all += seconds;
    }
    line["cpu_ms_per_round"] = all * 1e3 / static_cast<double>(figures.passes);
    lines_ += line.dump() + "\n";
    PrintLine(line);
    if (Largest(bytes) != bytes.front() || bytes.back() != bytes.front()) {
      std::printf("%-16score time of a round, all processes: %.2f ms\n", "",
                  line["cpu_ms_per_round"].get<double>());
      std::fflush(stdout);
    }
  }

  // Of every process, between the two snapshots. All workers together.
  std::map<std::string, double> CpuSeconds(const std::vector<CountersByProcess>& snapshots) {
    std::map<std::string, double> seconds;
    for (const auto& [process, counters] : snapshots[1]) {
      seconds[process] =
          static_cast<double>(counters.at("cpu_us") - snapshots[0].at(process).at("cpu_us")) * 1e-6;
    }
    const auto of_workers = exchange_.Gather(seconds[StrCat("worker ", store_->rank())]);
    for (size_t rank = 0; rank < of_workers.size(); ++rank)
      seconds[StrCat("worker ", rank)] = of_workers[rank];
    return seconds;
  }

  nlohmann::json Line(const LoadOptions& options, const LoadFigures& figures) const {
    const runtime::JobConfig& config = runtime::Runtime::Default()->config();
    nlohmann::json line = {{"mode", Name(options.mode)},
                           {"kv_store", FLAGS_kv_store},
                           {"optimizer", FLAGS_optimizer},
                           {"transport", !IsDist()           ? "none"
                                         : config.local_only ? "ipc"
                                                             : "tcp"},
                           {"workers", store_->num_workers()},
                           {"servers", IsDist() ? config.num_servers : 0},
                           {"bytes", std::accumulate(options.bytes.begin(), options.bytes.end(), int64_t{0}) /
                                         static_cast<int64_t>(options.bytes.size())},
                           {"keys", options.bytes.size()},
                           {"gbit_per_s", figures.gbit_per_s},
                           {"p50_us", figures.p50_us},
                           {"p99_us", figures.p99_us},
                           {"cpu_s_per_gb", nlohmann::json::object()}};
    if (yardstick_ != nullptr) {
      line["raw_tcp_2_streams_gbit_per_s"] = raw_.tcp_two_streams_gbit;
      line["raw_zmq_gbit_per_s"] = raw_.zmq_gbit;
      line["raw_zmq_rtt_us"] = raw_.zmq_rtt_us;
      line["raw_memcpy_gbyte_per_s"] = raw_.memcpy_gbyte;
    }
    return line;
  }

  void PrintHead() const {
    std::printf(
        "%s, %s, %d workers. Gbit/s: payload per direction. p50, p99: us of one\n"
        "operation. raw: share of raw TCP's two ways. rtts: p50 in raw ZeroMQ round\n"
        "trips. CPU: seconds per GB, of the workers and of the servers.\n",
        FLAGS_kv_store.c_str(), FLAGS_optimizer.c_str(), store_->num_workers());
    std::printf("%-16s%7s %4s %6s %6s %6s %4s %4s %5s %4s\n", "", "bytes", "keys", "Gbit/s", "p50", "p99",
                "raw", "rtts", "CPU w", "s");
    std::fflush(stdout);
  }

  static void PrintRaw(const char* what, int64_t bytes, double rate) {
    std::printf("%-16s%7s %4s %6.3g\n", what, HumanBytes(static_cast<uint64_t>(bytes)).c_str(), "", rate);
  }

  void PrintLine(const nlohmann::json& line) const {
    const std::string mode = line["mode"];
    const double directions = mode == "push" || mode == "pull" ? 1 : 2;
    double worker = 0, server = 0;
    for (const auto& [process, seconds] : line["cpu_s_per_gb"].items())
      (process.starts_with("worker") ? worker : server) += seconds.get<double>();
    const double rate = line["gbit_per_s"], p50 = line["p50_us"], p99 = line["p99_us"];
    char of_raw[16] = "-", round_trips[16] = "-";
    if (yardstick_ != nullptr) {
      std::snprintf(of_raw, sizeof of_raw, "%.2f", directions * rate / raw_.tcp_two_streams_gbit);
      std::snprintf(round_trips, sizeof round_trips, "%.3g", p50 / raw_.zmq_rtt_us);
    }
    std::printf("%-16s%7s %4lld %6.3g %6.4g %6.4g %4s %4s %5.2g %4.2g\n", mode.c_str(),
                HumanBytes(line["bytes"]).c_str(), static_cast<long long>(line["keys"]), rate, p50, p99,
                of_raw, round_trips, worker, server);
    std::fflush(stdout);
  }

  Yardstick* const yardstick_;  // worker 0's
  const std::shared_ptr<KVStore> store_;
  Exchange exchange_;
  RawFigures raw_;
  std::string lines_;
};

}  // namespace

int main(int argc, char** argv) {
  runtime::SpinBriefly(argc, argv);
  std::optional<Yardstick> yardstick;
  const char* rank = getenv("DMLC_RANK");
  // Before any thread: whoever will be worker 0 measures the machine.
  if (rank == nullptr || std::string(rank) == "0") yardstick.emplace();
  return RunProgram(argc, argv, [&] {
    runtime::ParseFlags(argc, argv, "Goodput, latency and processor time of pushing and pulling.");
    CheckFlags();
    Bench(FLAGS_raw && yardstick ? &*yardstick : nullptr).Run();
  });
}
