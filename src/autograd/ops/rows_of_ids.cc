// Row-sparse gradients of embeddings (rows_of_ids.h). They are made of operations on the arrays' context: an
// embedding of places gathers rows. Nothing is summed: whoever takes a row-sparse gradient adds up the rows
// of an id. Ids are read on the host, where they are used next, and nothing waits for the gradients.
// ops/embedding.cc calls this within Backward, which does not record.
#include "autograd/ops/rows_of_ids.h"

#include <vector>

#include "autograd/numbers.h"
#include "sluice/ops.h"

namespace sluice::ops {
namespace {

using Numbers = std::vector<int64_t>;

// Returns rows of `table` by their numbers.
NDArray Gathered(const Numbers& numbers, const NDArray& table) {
  return Embedding(NumberArray(numbers).AsInContext(table.context()), table);
}

}  // namespace

// The gradient is copied, since it may be an array of the caller of Backward, who goes on to use it.
RowSparse RowsOfIds(const NDArray& ids, const NDArray& grad, std::optional<int64_t> padding) {
  const Numbers all = ReadNumbers(ids);
  if (!padding) return {NumberArray(all, ids.shape()), grad.Copy()};
  Numbers kept, places;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] == *padding) continue;
    kept.push_back(all[i]);
    places.push_back(static_cast<int64_t>(i));
  }
  if (kept.size() == all.size()) return {NumberArray(all, ids.shape()), grad.Copy()};
  const NDArray rows = grad.Reshape({ids.size(), grad.shape().dims().back()});
  return {NumberArray(kept), Gathered(places, rows)};
}

RowSparse RowsOfBags(const NDArray& ids, const NDArray& grad, std::optional<int64_t> padding) {
  const auto bags = static_cast<size_t>(ids.shape()[0]), steps = static_cast<size_t>(ids.shape()[1]);
  const auto columns = static_cast<size_t>(grad.shape()[1]);
  const Numbers all = ReadNumbers(ids);
  Numbers kept, bag_of;
  std::vector<float> shares;  // [bags, columns]: the share of each id in its bag's gradient
  for (size_t bag = 0; bag < bags; ++bag) {
    const size_t before = kept.size();
    for (size_t i = bag * steps; i < (bag + 1) * steps; ++i) {
      if (padding && all[i] == *padding) continue;
      kept.push_back(all[i]);
      bag_of.push_back(static_cast<int64_t>(bag));
    }
    const size_t count = kept.size() - before;
    shares.insert(shares.end(), columns, count == 0 ? 0 : 1 / static_cast<float>(count));
  }
  const NDArray share_of = NDArray::From(shares, grad.shape(), cpu_pinned(0)).AsInContext(grad.context());
  return {NumberArray(kept), Gathered(bag_of, grad * share_of)};
}

}  // namespace sluice::ops
