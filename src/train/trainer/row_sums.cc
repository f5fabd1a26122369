// RowSums: row-sparse gradients of all workers (row_sums.h).
//
// The parameter's key is a table in which a round leaves the sums of the rows that were pushed, since the
// store has no optimiser. To pull them a worker must know which rows all workers have pushed: they exchange
// the numbers of their ids by a dense key, and the ids by a table of them, in which each worker has rows of
// its own. So a step takes three round trips. One worker alone sums on the host. The Trainer calls this.
#include "train/trainer/row_sums.h"

#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "sluice/autograd.h"
#include "tensor/access.h"
#include "tensor/numbers.h"
#include "train/trainer/stored_tables.h"

namespace sluice::internal {
namespace {

Key CountsOf(const TrackedParameter& tracked) {
  return StrCat("Trainer/", tracked.name(), "/counts");
}
Key IdsOf(const TrackedParameter& tracked) {
  return StrCat("Trainer/", tracked.name(), "/ids");
}

int64_t RowsOf(const TrackedParameter& tracked) {
  return tracked.parameter->shape()[0];
}

// A pull occupies the stream of its array's context until all workers have pushed, so it is the parameter's
// own.
Context HostOf(const TrackedParameter& tracked) {
  return HostContextOf(tracked.parameter->list_ctx().front());
}

std::vector<int64_t> Range(int64_t first, int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

}  // namespace

void RowSums::Make(TrackedParameter& tracked) {
  if (alone()) return;
  const int64_t workers = store_.num_workers();
  store_.InitRowSparse(tracked.keys.front(), tracked.parameter->shape());
  store_.InitRowSparse(IdsOf(tracked), {workers * RowsOf(tracked), 1}, DType::kInt64);
  store_.Init(CountsOf(tracked), NDArray({workers}, cpu_pinned(0), DType::kFloat64));
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
  store_.PushRowSparse(IdsOf(tracked), {NumberArray(Range(rank * rows, mine)), NumberArray(own, {mine, 1})});
  std::vector<double> counts(static_cast<size_t>(workers));
  counts[static_cast<size_t>(rank)] = static_cast<double>(mine);
  const NDArray all_counts = NDArray::From(counts, {workers}, cpu_pinned(0));
  store_.PushPull(CountsOf(tracked), all_counts, nullptr, {.uncompressed = true});
  counts = all_counts.ToVector<double>();
  std::vector<int64_t> places;
  for (int64_t worker = 0; worker < workers; ++worker) {
    const auto of_worker = Range(worker * rows, static_cast<int64_t>(counts[static_cast<size_t>(worker)]));
    places.insert(places.end(), of_worker.begin(), of_worker.end());
  }
  NDArray ids = NDArray::Empty({static_cast<int64_t>(places.size()), 1}, HostOf(tracked), DType::kInt64);
  store_.RowSparsePull(IdsOf(tracked), NumberArray(places), ids);
  return DistinctIds(ids, rows);
}

void RowSums::Sum(const TrackedParameter& tracked, double divisor) {
  const autograd::PauseScope pause;
  std::vector<RowSparse> gradients;
  for (const Context& context : tracked.parameter->list_ctx()) {
    for (const RowSparse& rows : tracked.parameter->rows().grad(context)) gradients.push_back(rows);
  }
  SummedRows sum = SumOf(gradients, tracked.parameter->shape()[1]);
  if (alone()) {
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
