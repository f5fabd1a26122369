// Collects the operations of a device's stream and the stages of the worker's gradients, and correlates them.
//
// Operations arrive on the stream's thread, stages on the worker's threads; both go into one guarded record.
// Report splits the operations into steps at the marks of MarkStep, and matches the n-th round of a key with
// the n-th step: every key must be pushed once per step. A wait of an operation names its key in its text
// ("push_pull of key conv1.weight"). train_bench --trace uses it.
#include "step_trace.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/access.h"

namespace sluice::bench {
namespace {

using worker::Stage;

constexpr const char* kMark = "step begins";

// The operations of one step.
struct Step {
  std::vector<Operation> operations;
  Time begin() const { return operations.front().began; }
  Time end() const { return operations.back().ended; }
  // The time from which the step's first operation that uses a key could run, and the time at which the key's
  // value had arrived.
  struct Need {
    Time ready, done;
  };
  std::optional<Need> NeedOf(const std::string& key) const {
    for (const Operation& operation : operations) {
      for (const Operation::Wait& wait : operation.waits) {
        if (wait.what.ends_with(" of key " + key)) return Need{operation.ready, wait.done};
      }
    }
    return std::nullopt;
  }
  // Returns the microseconds that the step's operations waited for keys.
  double Waited() const {
    double waited = 0;
    for (const Operation& operation : operations) {
      double longest = 0;  // an operation waits for its keys at once
      for (const Operation::Wait& wait : operation.waits)
        longest = std::max(longest, ToSeconds(wait.done - operation.ready) * 1e6);
      waited += longest;
    }
    return waited;
  }
};

std::vector<Step> StepsOf(const std::vector<Operation>& operations) {
  std::vector<Step> steps;
  for (const Operation& operation : operations) {
    if (operation.what == kMark) {
      steps.emplace_back();
    } else if (!steps.empty()) {
      steps.back().operations.push_back(operation);
    }
  }
  return steps;
}

double Microseconds(Duration duration) {
  return ToSeconds(duration) * 1e6;
}

class Values {
 public:
  void Add(double value) { values_.push_back(value); }
  double Median() {
    std::sort(values_.begin(), values_.end());
    return values_.empty() ? 0 : values_[values_.size() / 2];
  }
  std::string Text() {
    char text[32];
    std::snprintf(text, sizeof text, "%.0f", Median());
    return values_.empty() ? "-" : text;
  }

 private:
  std::vector<double> values_;
};

}  // namespace

void StepTrace::OnOperation(const Operation& operation) {
  recorded_.With([&](Recorded& recorded) { recorded.operations.push_back(operation); });
}

void StepTrace::OnStage(Time now, Stage stage, uint32_t key, uint64_t round, uint64_t) {
  recorded_.With([&](Recorded& recorded) { recorded.rounds[key][round].last[stage] = now; });
}

void StepTrace::Start() {
  recorded_.With([](Recorded& recorded) { recorded = {}; });
}

void StepTrace::MarkStep() {
  EnqueueOn(cpu(0), kMark, {}, [] {});
}

std::string StepTrace::Report(const std::vector<std::string>& keys) const {
  const Recorded recorded = recorded_.With([](const Recorded& r) { return r; });
  const std::vector<Step> steps = StepsOf(recorded.operations);
  if (steps.size() < 3 || recorded.rounds.size() != keys.size()) {
    throw Error(ErrorCode::kFailedPrecondition,
                StrCat("recorded ", steps.size(), " steps and ", recorded.rounds.size(),
                       " keys: a trace needs three steps at least, and each of the ", keys.size(),
                       " keys pushed in every step of a distributed store"));
  }
  std::string report =
      "| key | gradient written | push left | server has it | value there | next forward at it | waited |\n"
      "|---|---|---|---|---|---|---|\n";
  Values lengths, backward_ends, waits, early;
  std::vector<double> early_in(steps.size());
  size_t index = 0;
  for (const auto& [key, rounds] : recorded.rounds) {
    Values gradient, push, acknowledged, landed, needed, waited;
    size_t s = 0;
    for (const auto& [number, round] : rounds) {
      const size_t step = s++;
      if (step == 0 || step + 1 >= steps.size() || !round.HasAll()) continue;
      const Time begin = steps[step].begin();
      gradient.Add(Microseconds(round.last.at(Stage::kReduce) - begin));
      push.Add(Microseconds(round.last.at(Stage::kPush) - begin));
      const auto ack = round.last.find(Stage::kWait);  // missing if the value itself was the answer
      acknowledged.Add(
          Microseconds((ack == round.last.end() ? round.last.at(Stage::kDeliver) : ack->second) - begin));
      landed.Add(Microseconds(round.last.at(Stage::kDeliver) - begin));
      if (round.last.at(Stage::kPush) < steps[step].end()) ++early_in[step];
      const auto need = steps[step + 1].NeedOf(keys[index]);
      if (need) needed.Add(Microseconds(need->ready - begin));
      waited.Add(need ? std::max(0.0, Microseconds(need->done - need->ready)) : 0);
    }
    report +=
        StrCat("| ", keys[index++], " | ", gradient.Text(), " | ", push.Text(), " | ", acknowledged.Text(),
               " | ", landed.Text(), " | ", needed.Text(), " | ", waited.Text(), " |\n");
  }
  for (size_t step = 1; step + 1 < steps.size(); ++step) {
    lengths.Add(Microseconds(steps[step + 1].begin() - steps[step].begin()));
    backward_ends.Add(Microseconds(steps[step].end() - steps[step].begin()));
    waits.Add(steps[step + 1].Waited());
    early.Add(early_in[step]);
  }
  return StrCat(report, "\nMicroseconds from the step's first operation, medians of ", steps.size() - 2,
                " steps. Backward ends at ", backward_ends.Text(), ", the next step begins at ",
                lengths.Text(), ". Pushes that left before backward ended: ", early.Text(), " of ",
                keys.size(), ". The next forward's waits together: ", waits.Text(), ".\n");
}

}  // namespace sluice::bench
