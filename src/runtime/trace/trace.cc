// Trace: a recorder that watches the default devices' streams and the runtime's keys. Operations and stages
// arrive on any thread and go into one guarded record, up to a bound. A round of a key becomes events when
// its last stage has come: from each stage to the next. The devices and the runtime keep the recorder after
// the Trace is gone; it then records nothing.
#include "sluice/trace.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/file.h"
#include "base/guarded.h"
#include "base/strings.h"
#include "runtime/runtime.h"
#include "runtime/trace/trace_events.h"
#include "sluice/error.h"
#include "tensor/stream_watcher.h"
#include "worker/gradient_stages.h"

namespace sluice {

class Trace::Recorder final : public StreamWatcher, public worker::Tracer {
 public:
  explicit Recorder(int64_t max_events) : max_events_(max_events) {}

  void OnOperation(const StreamOperation& operation) override {
    recorded_.With([&](Recorded& recorded) {
      Time waited_until = operation.ready;
      const StreamOperation::Wait* longest = nullptr;
      for (const StreamOperation::Wait& wait : operation.waits) {
        if (wait.done <= waited_until) continue;
        waited_until = wait.done;
        longest = &wait;
      }
      if (longest != nullptr)
        Add(recorded, {operation.stream, "wait for " + longest->what, operation.ready,
                       std::min(waited_until, operation.began)});
      Add(recorded, {operation.stream, operation.what, operation.began, operation.ended});
    });
  }

  void OnKey(uint32_t key, const std::string& name) override {
    recorded_.With([&](Recorded& recorded) {
      if (!recorded.stopped) recorded.names[key] = name;
    });
  }

  void OnStage(Time now, worker::Stage stage, uint32_t key, uint64_t round, uint64_t) override {
    recorded_.With([&](Recorded& recorded) {
      if (recorded.stopped) return;
      const auto place = recorded.rounds.find({key, round});
      Reached& last = place != recorded.rounds.end() ? place->second : recorded.rounds[{key, round}];
      if (last.at != Time())
        Add(recorded,
            {TrackOf(recorded, key, round), StrCat(Name(last.stage), ", round ", round), last.at, now});
      last = {stage, now};
      if (stage == worker::Stage::kBroadcast) recorded.rounds.erase({key, round});
      if (recorded.rounds.size() > kMostRounds) recorded.rounds.erase(recorded.rounds.lower_bound({key, 0}));
    });
  }

  void Stop() {
    recorded_.With([](Recorded& recorded) { recorded = {.stopped = true}; });
  }

  std::string Text(const std::string& process) const {
    return recorded_.With([&](const Recorded& recorded) {
      return runtime::TraceText(process, getpid(), recorded.events, recorded.left_out);
    });
  }

 private:
  static constexpr size_t kMostRounds = 100'000;  // a push without a pull reaches no last stage

  // The stage that a round of a key has reached.
  struct Reached {
    worker::Stage stage{};
    Time at{};
  };
  struct Recorded {
    bool stopped = false;
    int64_t left_out = 0;
    std::vector<runtime::TraceEvent> events;
    std::map<uint32_t, std::string> names;
    std::map<std::pair<uint32_t, uint64_t>, Reached> rounds;
  };

  void Add(Recorded& recorded, runtime::TraceEvent event) const {
    if (recorded.stopped) return;
    if (static_cast<int64_t>(recorded.events.size()) == max_events_) {
      ++recorded.left_out;
    } else {
      recorded.events.push_back(std::move(event));
    }
  }
  static std::string TrackOf(const Recorded& recorded, uint32_t key, uint64_t round) {
    const auto name = recorded.names.find(key);
    // Rounds that follow each other overlap, which events of one track may not.
    return StrCat("key ", name == recorded.names.end() ? std::to_string(key) : name->second,
                  round % 2 == 0 ? " (even rounds)" : " (odd rounds)");
  }

  const int64_t max_events_;
  Guarded<Recorded> recorded_;
};

Trace::Trace(const TraceOptions& options) {
  if (options.max_events < 1)
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("Trace: max_events is ", options.max_events, "; it must be at least 1"));
  recorder_ = std::make_shared<Recorder>(options.max_events);
  Devices::Default()->WatchWith(recorder_);
  runtime::Runtime::Default()->TraceWith(recorder_);
}

Trace::~Trace() {
  recorder_->Stop();
}

void Trace::Write(const std::string& file, const std::string& process) const {
  ValidateFileName(file, "Trace::Write").OrThrow();
  const std::string text = recorder_->Text(process);
  WriteFileAtomically(file, {AsBytes(text)}).OrThrow();
}

}  // namespace sluice
