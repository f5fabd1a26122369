// Records how computation and communication of a distributed job overlap. For each key it reports when
// backward has written the gradient, when the push has been sent, when the new value has been received, when
// the next forward needs the value, and how long it waits for it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "stream_watch.h"
#include "worker/gradient_stages.h"

namespace sluice::bench {

// All methods are thread-safe.
class StepTrace final : public OperationWatcher, public worker::Tracer {
 public:
  void OnOperation(const Operation& operation) override;
  void OnStage(Time now, worker::Stage stage, uint32_t key, uint64_t round, uint64_t bytes) override;

  // Drops everything recorded so far.
  void Start();
  // Puts a mark on cpu(0)'s stream. Call it before each step, on the thread that issues the step's
  // operations.
  static void MarkStep();
  // Returns medians over all steps but the first and the last, as a markdown table and a summary. `keys` are
  // the names of the pushed keys, in the order in which the store has numbered them. Throws
  // Error(kFailedPrecondition) if there were fewer than three steps or the number of keys differs.
  std::string Report(const std::vector<std::string>& keys) const;

 private:
  struct Round {
    std::map<worker::Stage, Time> last;  // by stage: when the key's last part reported it
    bool HasAll() const {
      using worker::Stage;
      return last.contains(Stage::kReduce) && last.contains(Stage::kPush) && last.contains(Stage::kDeliver);
    }
  };
  struct Recorded {
    std::vector<Operation> operations;
    std::map<uint32_t, std::map<uint64_t, Round>> rounds;  // by key
  };
  Guarded<Recorded> recorded_;
};

}  // namespace sluice::bench
