// ParameterTables: the keys of a Trainer's parameters with row-sparse gradients are tables
// (parameter_tables.h).
//
// Where the store updates, StoredTables pushes rows and fetches what layers read. Otherwise RowSums takes the
// sums of all workers, and LocalUpdate updates the rows. The Trainer calls this.
#include "train/trainer/parameter_tables.h"

#include "base/strings.h"
#include "kvstore/update/update.h"
#include "sluice/autograd.h"
#include "sluice/error.h"
#include "train/trainer/row_update.h"

namespace sluice::internal {
namespace {

// Copies the first array to the others.
void MakeEqual(std::vector<NDArray>* arrays) {
  const autograd::PauseScope pause;
  for (size_t i = 1; i < arrays->size(); ++i) arrays->front().CopyTo(&(*arrays)[i]);
}

}  // namespace

ParameterTables::ParameterTables(KVStore& store, std::vector<TrackedParameter>& tracked,
                                 LocalUpdate* local_update)
    : store_(store),
      tracked_(tracked),
      local_update_(local_update),
      stored_(std::make_shared<StoredTables>(store)),
      sums_(store) {}

void ParameterTables::RequireValid(const OptimizerConfig& config) const {
  kvstore::UpdateRule rule;
  rule.optimizer = Optimizer::Create(config);
  for (const TrackedParameter& tracked : tracked_) {
    if (!tracked.row_sparse()) continue;
    const Shape& shape = tracked.parameter->shape();
    if (!tracked.parameter->initialized()) {
      throw Error(
          ErrorCode::kFailedPrecondition,
          StrCat("parameter ", tracked.name(), " has a row-sparse gradient and no values yet; its shape is ",
                 shape, ": give it its shape and call Initialize first"));
    }
    kvstore::ValidateRule(rule, TableSpec(tracked.name(), shape)).OrThrow();
  }
}

std::string ParameterTables::Make() {
  std::string why;
  for (TrackedParameter& tracked : tracked_) {
    if (!tracked.row_sparse() || !store_updates()) continue;
    if (const std::string of_table = stored_->Make(tracked); why.empty()) why = of_table;
  }
  return why;
}

void ParameterTables::Start() {
  for (TrackedParameter& tracked : tracked_) {
    if (!tracked.row_sparse()) continue;
    if (!store_updates()) {
      local_update_->AddTable(tracked.name(), tracked.parameter->shape());
      sums_.Make(tracked);
      MakeEqual(&tracked.parameter->list_data());
      tracked.stored.Note(tracked.parameter->list_data());
    }
    tracked.has_key = true;
  }
}

void ParameterTables::Follow() {
  for (TrackedParameter& tracked : tracked_) {
    if (tracked.row_sparse() && store_updates()) tracked.parameter->rows().SetSource(stored_);
  }
}

bool ParameterTables::WaitForStep(const TrackedParameter& tracked) const {
  return !store_updates() || tracked.stored.Changed(tracked.parameter->list_data()) != nullptr;
}

// No round of a sync store closes without rank 0's push, so its rows are there before the next one does.
void ParameterTables::Push(TrackedParameter& tracked, const PushOptions& options) {
  if (!store_updates()) return sums_.Sum(tracked, options.divisor);
  if (const NDArray* written = tracked.stored.Changed(tracked.weights[0])) {
    store_.NumUpdates(tracked.keys.front());  // waits until the round of this worker's last push has closed
    stored_->Set(tracked, *written);
    tracked.stored.Note(tracked.weights[0]);
  }
  stored_->Push(tracked, options);
}

}  // namespace sluice::internal
