// How the steps of a distributed job overlap with what they exchange: for each key when backward has written
// its gradient, when the push has left, when the value has come, when the next forward turns to it and how
// long it waits.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "stream_watch.h"
#include "worker/gradient_stages.h"

namespace sluice::bench {

// Thread safety: all methods.
class StepTrace final : public StreamWatcher, public worker::Tracer {
 public:
  void OnOperation(const Operation& operation) override;
  void OnStage(Time now, worker::Stage stage, uint32_t key, uint64_t round, uint64_t bytes) override;

  // What is heard from here on counts.
  void Start();
  // Before each step, on the caller's thread: its operations come behind the mark.
  static void MarkStep();
  // Medians over all steps but the first and the last, as a markdown table and a summary. `keys`: the names
  // in the order in which the store knows them, those that are pushed.
  std::string Report(const std::vector<std::string>& keys) const;

 private:
  struct Round {
    std::map<worker::Stage, Time> last;  // report of the stage, of the key's last part
    bool HasAll() const {
      using worker::Stage;
      return last.contains(Stage::kReduce) && last.contains(Stage::kPush) && last.contains(Stage::kDeliver);
    }
  };
  struct Heard {
    std::vector<Operation> operations;
    std::map<uint32_t, std::map<uint64_t, Round>> rounds;  // by key
  };
  Guarded<Heard> heard_;
};

}  // namespace sluice::bench
