// Measures goodput, latency and processor time of pushing and pulling, next to what the same machine achieves
// without a parameter server: raw TCP or Unix streams, raw ZeroMQ, memory copies (raw.h).
//
// The program is the worker; worker 0 prints the results. Every worker must issue the same calls in the same
// order, since rounds and barriers need all of them. The raw measurements run in a process of their own
// (Yardstick) that is forked before the first thread starts, while all workers wait at a barrier.
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
#include "kv_report.h"
#include "runtime/process.h"
#include "runtime/runtime.h"
#include "runtime/worker_node.h"
#include "sluice/error.h"
#include "sluice/flags.h"
#include "sluice/runtime.h"
#include "sluice/store_type.h"
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
DEFINE_int32(calls, 0, "Push or pull the keys of a measurement in so many calls; 0: one call a key.");
DEFINE_bool(in_place, false, "push_pull writes its results into the gradients.");
DEFINE_int32(gpu, -1, "The GPU that gradients and results lie on; -1: memory of the host.");
DEFINE_double(seconds, 0.5, "How long a repeat takes, about.");
DEFINE_int32(repeats, 5, "The median of these counts.");
DEFINE_int32(latency_samples, 300,
             "At most so many calls, one at a time, for p50 and p99; fewer where they would take longer than "
             "the repeats, but 20.");
DEFINE_bool(raw, true,
            "Measure the machine as well, beside each size: two raw streams, raw ZeroMQ, copies and sums.");
DEFINE_bool(raw_loops, false,
            "Measure of the machine only ZeroMQ there and back, in as many messages as the store's.");
DEFINE_string(json, "", "Write one object per line and measurement to this file (worker 0).");

namespace {

using namespace sluice;
using namespace sluice::bench;
using CountersByProcess = std::map<std::string, wire::Counters>;

[[noreturn]] void ThrowInvalid(const std::string& flag, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, StrCat("flag --", flag, " ", why, "; --help lists every flag"));
}

// Returns for each measurement the sizes of its keys.
std::vector<std::vector<int64_t>> SizesFlag() {
  std::vector<std::vector<int64_t>> sizes;
  for (const std::string& entry : StrSplit(FLAGS_bytes, ',')) {
    sizes.emplace_back();
    for (const std::string& text : StrSplit(entry, '+')) {
      const auto size = ParseInt(text);
      if (!size || *size < 4 || *size % 4 != 0 || *size > FLAGS_working_set)
        ThrowInvalid("bytes", StrCat("names '", text, "'; a size is a multiple of 4, at most --working-set"));
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
  if (UpdateFromName(FLAGS_optimizer) == Update::kNone && StoreType::Parse(FLAGS_kv_store).async)
    ThrowInvalid("optimizer", "is none, but an async store updates nothing without one");
  if (FLAGS_keys < 0) ThrowInvalid("keys", StrCat("is ", FLAGS_keys));
  if (FLAGS_max_keys < 1) ThrowInvalid("max-keys", StrCat("is ", FLAGS_max_keys));
  if (FLAGS_calls < 0) ThrowInvalid("calls", StrCat("is ", FLAGS_calls));
  if (FLAGS_seconds <= 0) ThrowInvalid("seconds", StrCat("is ", FLAGS_seconds));
  if (FLAGS_repeats < 1) ThrowInvalid("repeats", StrCat("is ", FLAGS_repeats));
  if (FLAGS_latency_samples < 1)
    ThrowInvalid("latency-samples", StrCat("is ", FLAGS_latency_samples, "; it must be at least 1"));
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
    if (IsFirst())
      PrintHead(StrCat(FLAGS_kv_store, ", ", FLAGS_optimizer, ", ", Transport(), ", ",
                       Counted(store_->num_workers(), "worker")));
    for (const std::vector<int64_t>& bytes : SizesFlag()) {
      if (yardstick_ != nullptr) MeasureRaw(bytes);
      store_->Barrier();
      for (const std::string& mode : StrSplit(FLAGS_modes, ',')) Measure(ModeFromName(mode), bytes);
    }
    if (IsFirst() && !FLAGS_json.empty()) WriteFileAtomically(FLAGS_json, {AsBytes(lines_)}).OrThrow();
  }

 private:
  bool IsFirst() const { return store_->rank() == 0; }
  bool IsDist() const { return StoreType::Parse(FLAGS_kv_store).distributed; }

  int NumServers() const { return IsDist() ? runtime::Runtime::Default()->config().num_servers : 0; }

  std::string Transport() const {
    if (!IsDist()) return "none";
    const runtime::JobConfig& config = runtime::Runtime::Default()->config();
    if (config.local_only) return "ipc";
    if (config.transport == runtime::TransportChoice::kShm) return "shm";
    return config.shares_memory() ? "auto" : "tcp";
  }

  void MeasureRaw(const std::vector<int64_t>& bytes) {
    RawOptions options;
    options.message_bytes = static_cast<size_t>(Largest(bytes));
    options.senders = static_cast<size_t>(store_->num_workers());
    options.receivers = static_cast<size_t>(std::max(1, NumServers()));
    options.calls = static_cast<size_t>(FLAGS_calls);
    if (FLAGS_calls > 0)
      options.call_bytes = std::accumulate(bytes.begin(), bytes.end(), size_t{0}) / options.calls;
    options.working_set = static_cast<size_t>(FLAGS_working_set);
    options.seconds = FLAGS_seconds;
    options.repeats = FLAGS_repeats;
    options.local = IsDist() && Transport() != "tcp";
    options.only_loops = FLAGS_raw_loops;
    options.round_trips = raw_.zmq_rtt_us == 0;  // measured once: it does not depend on the keys' sizes
    const double rtt = raw_.zmq_rtt_us;
    raw_ = yardstick_->Measure(options);
    if (!options.round_trips) raw_.zmq_rtt_us = rtt;
    PrintRaw(raw_, options.message_bytes);
  }

  // Returns the counters of this worker and, on worker 0, those of the scheduler and of the servers.
  CountersByProcess Snapshot() {
    constexpr std::chrono::seconds kTimeout{30};
    CountersByProcess counters;
    const std::string self = StrCat("worker ", store_->rank());
    if (!IsDist()) {
      counters[self] = runtime::ProcessCounters();
      return counters;
    }
    const auto node = runtime::Runtime::Default()->Node();
    if (IsFirst()) counters = node->Stats(kTimeout);
    counters[self] = node->OwnStats(kTimeout);
    return counters;
  }

  void Measure(Mode mode, const std::vector<int64_t>& bytes) {
    LoadOptions options;
    options.mode = mode;
    options.bytes = bytes;
    options.calls = static_cast<size_t>(FLAGS_calls);
    options.in_place = FLAGS_in_place;
    options.context = FLAGS_gpu < 0 ? cpu(0) : gpu(FLAGS_gpu);
    options.seconds = FLAGS_seconds;
    options.repeats = FLAGS_repeats;
    options.latency_samples = FLAGS_latency_samples;
    std::vector<CountersByProcess> snapshots;
    Load load(store_, options, exchange_);
    const LoadFigures figures = load.Run([&] { snapshots.push_back(Snapshot()); });
    const CountersByProcess spent = Spent(snapshots);
    if (!IsFirst()) return;
    const nlohmann::json line = Line(options, figures, spent);
    lines_ += line.dump() + "\n";
    PrintLine(line);
    if (Largest(bytes) != bytes.front() || bytes.back() != bytes.front()) {
      std::printf("%-16score time of a round, all processes: %.2f ms\n", "",
                  line["cpu_ms_per_round"].get<double>());
      std::fflush(stdout);
    }
  }

  // Returns what each process has spent between the two snapshots: processor time, and the bytes copied by
  // the process itself and by the kernel at its sockets. All workers must call it together, since they
  // exchange their numbers.
  CountersByProcess Spent(const std::vector<CountersByProcess>& snapshots) {
    CountersByProcess spent;
    const auto difference = [&](const std::string& process, const char* counter) -> uint64_t {
      const wire::Counters &before = snapshots[0].at(process), &after = snapshots[1].at(process);
      return after.contains(counter) ? after.at(counter) - (before.contains(counter) ? before.at(counter) : 0)
                                     : 0;
    };
    for (const auto& [process, counters] : snapshots[1]) {
      spent[process]["cpu_us"] = difference(process, "cpu_us");
      for (const char* copies : {"bytes_copied", "socket_bytes_sent", "socket_bytes_received"})
        spent[process]["copies"] += difference(process, copies);
    }
    const wire::Counters mine = spent[StrCat("worker ", store_->rank())];
    for (const auto& [counter, value] : mine) {
      const auto of_workers = exchange_.Gather(static_cast<double>(value));
      for (size_t rank = 0; rank < of_workers.size(); ++rank)
        spent[StrCat("worker ", rank)][counter] = static_cast<uint64_t>(std::max(of_workers[rank], 0.0));
    }
    return spent;
  }

  nlohmann::json Line(const LoadOptions& options, const LoadFigures& figures,
                      const CountersByProcess& spent) const {
    const int directions = options.mode == Mode::kPush || options.mode == Mode::kPull ? 1 : 2;
    nlohmann::json line = {{"mode", Name(options.mode)},
                           {"kv_store", FLAGS_kv_store},
                           {"optimizer", FLAGS_optimizer},
                           {"gpu", FLAGS_gpu},
                           {"transport", Transport()},
                           {"workers", store_->num_workers()},
                           {"servers", NumServers()},
                           {"bytes", std::accumulate(options.bytes.begin(), options.bytes.end(), int64_t{0}) /
                                         static_cast<int64_t>(options.bytes.size())},
                           {"keys", options.bytes.size()},
                           {"directions", directions},
                           {"gbit_per_s", figures.gbit_per_s},
                           {"p50_us", figures.p50_us},
                           {"p99_us", figures.p99_us},
                           {"passes", figures.passes},
                           {"latency_samples", figures.latency_samples},
                           {"cpu_s_per_gb", nlohmann::json::object()}};
    double cpu_us = 0, copies = 0;
    for (const auto& [process, counters] : spent) {
      const auto micros = static_cast<double>(counters.at("cpu_us"));
      line["cpu_s_per_gb"][process] = micros * 1e-6 / figures.gbyte;
      cpu_us += micros;
      copies += static_cast<double>(counters.at("copies"));
    }
    line["cpu_ms_per_round"] = cpu_us * 1e-3 / static_cast<double>(figures.passes);
    line["copies_per_byte"] = copies * 1e-9 / (figures.gbyte * directions);
    if (yardstick_ != nullptr) line["raw"] = ToJson(raw_);
    return line;
  }

  Yardstick* const yardstick_;  // null unless this worker measures the machine
  const std::shared_ptr<KVStore> store_;
  Exchange exchange_;
  RawFigures raw_;
  std::string lines_;
};

}  // namespace

int main(int argc, char** argv) {
  RestartWithBriefSpins(argc, argv);
  std::optional<Yardstick> yardstick;
  const char* rank = getenv("DMLC_RANK");
  // The yardstick forks, so it must start before any thread does. Worker 0 measures the machine; without
  // DMLC_RANK the rank is not known yet, and every process starts a yardstick.
  if (rank == nullptr || std::string(rank) == "0") yardstick.emplace();
  return RunProgram(argc, argv, [&] {
    ParseFlags(argc, argv, "Goodput, latency and processor time of pushing and pulling.");
    CheckFlags();
    Bench(FLAGS_raw && yardstick ? &*yardstick : nullptr).Run();
  });
}
