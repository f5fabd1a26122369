// ParameterTables: the keys of a Trainer's parameters with row-sparse gradients are tables
// (parameter_tables.h).
//
// Where the store updates, StoredTables pushes rows and fetches what layers read. Otherwise RowSums takes the
// sums of all workers, and LocalUpdate updates the rows. The Trainer calls this.
#include "train/trainer/parameter_tables.h"

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::internal {

ParameterTables::ParameterTables(KVStore& store, std::vector<TrackedParameter>& tracked,
                                 LocalUpdate* local_update)
    : store_(store),
      tracked_(tracked),
      local_update_(local_update),
      stored_(std::make_shared<StoredTables>(store)),
      sums_(store) {}

void ParameterTables::RequireKnown() const {
  for (const TrackedParameter& tracked : tracked_) {
    if (!tracked.row_sparse() || tracked.parameter->initialized()) continue;
    throw Error(
        ErrorCode::kFailedPrecondition,
        StrCat("parameter ", tracked.name(), " has a row-sparse gradient and no values yet; its shape is ",
               tracked.parameter->shape(), ": give it its shape and call Initialize first"));
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
    if (store_updates()) {
      tracked.parameter->rows().SetSource(stored_);
    } else {
      local_update_->AddTable(tracked.name(), tracked.parameter->shape());
      sums_.Make(tracked);
      tracked.stored.Note(tracked.parameter->list_data());
    }
    tracked.has_key = true;
  }
}

void ParameterTables::Push(TrackedParameter& tracked, const PushOptions& options) {
  if (!store_updates()) return sums_.Sum(tracked, options.divisor);
  if (const NDArray* written = tracked.stored.Changed(tracked.weights[0])) {
    store_.NumUpdates(tracked.keys.front());  // waits for this worker's last push
    store_.Barrier();
    stored_->Set(tracked, *written);
    store_.Barrier();  // no push may come before rank 0's rows
    tracked.stored.Note(tracked.weights[0]);
  }
  stored_->Push(tracked, options);
}

}  // namespace sluice::internal
