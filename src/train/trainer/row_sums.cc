// RowSums: row-sparse gradients of all workers (row_sums.h).
//
// The parameter's key is a table in which a round leaves the sums of the rows that were pushed, since the
// store has no optimiser. To pull them a worker must know which rows all workers have pushed: they exchange
// the numbers of their ids by a dense key, and the ids by a table of them, in which each worker has rows of
// its own. So a step takes three round trips. One worker alone sums on the host. The Trainer calls this.
#include "train/trainer/row_sums.h"

#include <algorithm>

#include "autograd/numbers.h"
#include "base/strings.h"
#include "sluice/autograd.h"
#include "tensor/access.h"
#include "train/trainer/stored_tables.h"

namespace sluice::internal {
namespace {

Key CountsKey(const TrackedParameter& tracked) {
  return StrCat("Trainer/", tracked.name(), "/counts");
}
Key IdsKey(const TrackedParameter& tracked) {
  return StrCat("Trainer/", tracked.name(), "/ids");
}

int64_t RowsOf(const TrackedParameter& tracked) {
  return tracked.parameter->shape()[0];
}

// The memory of the host at which rows of the parameter are sent and read.
Context HostOf(const TrackedParameter& tracked) {
  return HostContextOf(tracked.parameter->list_ctx().front());
}

}  // namespace

void RowSums::Make(TrackedParameter& tracked) {
  tracked.parameter->rows().FetchAll();  // the newest values may be those of a Trainer before
  if (single_worker()) return;
  const int64_t workers = store_.num_workers();
  store_.InitRowSparse(tracked.keys.front(), tracked.parameter->shape());
  store_.InitRowSparse(IdsKey(tracked), {workers * RowsOf(tracked), 1}, DType::kInt64);
  store_.Init(CountsKey(tracked), NDArray({workers}, cpu_pinned(0), DType::kFloat64));
  StoredTables tables(store_);
  tables.Follow(tracked);
  tables.Set(tracked, tracked.parameter->list_data().front());
  store_.Barrier();  // rank 0 has set the rows
  tables.FetchAll(*tracked.parameter);
}

// Returns the ids that any worker has, ascending.
std::vector<int64_t> RowSums::IdsOfAll(const TrackedParameter& tracked, const std::vector<int64_t>& own) {
  const int64_t workers = store_.num_workers(), rank = store_.rank(), rows = RowsOf(tracked);
  const auto mine = static_cast<int64_t>(own.size());
  store_.PushRowSparse(IdsKey(tracked),
                       {NumberArray(NumbersFrom(rank * rows, mine)), NumberArray(own, {mine, 1})});
  std::vector<double> counts(static_cast<size_t>(workers));
  counts[static_cast<size_t>(rank)] = static_cast<double>(mine);
  const NDArray all_counts = NDArray::From(counts, {workers}, cpu_pinned(0));
  store_.PushPull(CountsKey(tracked), all_counts, nullptr, {.uncompressed = true});
  counts = all_counts.ToVector<double>();
  std::vector<int64_t> places;
  for (int64_t worker = 0; worker < workers; ++worker) {
    const auto of_worker =
        NumbersFrom(worker * rows, static_cast<int64_t>(counts[static_cast<size_t>(worker)]));
    places.insert(places.end(), of_worker.begin(), of_worker.end());
  }
  NDArray ids = NDArray::Empty({static_cast<int64_t>(places.size()), 1}, HostOf(tracked), DType::kInt64);
  store_.RowSparsePull(IdsKey(tracked), NumberArray(places), ids);
  return DistinctIds(ids, rows);
}

void RowSums::Sum(const TrackedParameter& tracked, double divisor) {
  const autograd::PauseScope pause;
  SummedRows sum = SumOf(tracked.RowGradients(), tracked.parameter->shape()[1]);
  if (single_worker()) {
    if (divisor != 1) sum.rows *= static_cast<float>(1 / divisor);
  } else {
    store_.PushRowSparse(tracked.keys.front(), {NumberArray(sum.ids), sum.rows}, {.divisor = divisor});
    sum.ids = IdsOfAll(tracked, sum.ids);
    sum.rows = EmptyRows(sum.rows, sum.ids.size(), HostOf(tracked));
    store_.RowSparsePull(tracked.keys.front(), NumberArray(sum.ids), sum.rows);
  }
  for (const NDArray& table : tracked.parameter->list_data()) {
    const Context context = table.context();
    autograd::SetRowGrad(table, {{NumberArray(sum.ids).AsInContext(context), sum.rows.AsInContext(context)}});
  }
}

}  // namespace sluice::internal
