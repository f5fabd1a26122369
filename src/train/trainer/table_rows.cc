// Rows of a parameter's arrays (table_rows.h). SumOf and DistinctIds wait for their arrays; the others
// enqueue their work on the arrays' context and return. StoredTables, RowSums and RowUpdate call them on the
// training thread.
#include "train/trainer/table_rows.h"

#include <algorithm>
#include <numeric>

#include "autograd/numbers.h"
#include "sluice/autograd.h"
#include "sluice/ops.h"
#include "tensor/access.h"
#include "tensor/kernels.h"
#include "tensor/storage.h"

namespace sluice::internal {

namespace {

// A row of a gradient.
struct Addend {
  int64_t id;
  const float* row;
};

}  // namespace

SummedRows SumOf(const std::vector<RowSparse>& gradients, int64_t columns) {
  const autograd::PauseScope pause;
  std::vector<NDArray> hosts;  // keeps the rows alive
  std::vector<Addend> addends;
  for (const RowSparse& gradient : gradients) {
    const std::vector<int64_t> ids = ReadNumbers(gradient.ids);
    const NDArray& host = hosts.emplace_back(HostArray(gradient.rows));
    host.WaitToRead();
    const auto* row = reinterpret_cast<const float*>(HostBytes(host).data());
    for (const int64_t id : ids) {
      addends.push_back({id, row});
      row += columns;
    }
  }
  std::ranges::stable_sort(addends, {}, &Addend::id);
  SummedRows sum;
  std::vector<float> rows;
  std::vector<double> sums(static_cast<size_t>(columns));
  for (size_t i = 0; i < addends.size();) {
    const int64_t id = sum.ids.emplace_back(addends[i].id);
    std::ranges::fill(sums, 0.0);
    for (; i < addends.size() && addends[i].id == id; ++i)
      for (size_t j = 0; j < sums.size(); ++j) sums[j] += static_cast<double>(addends[i].row[j]);
    for (const double value : sums) rows.push_back(static_cast<float>(value));
  }
  sum.rows = NDArray::From(rows, {static_cast<int64_t>(sum.ids.size()), columns}, cpu_pinned(0));
  return sum;
}

std::vector<int64_t> DistinctIds(const NDArray& ids, int64_t rows) {
  std::vector<int64_t> distinct = ReadNumbers(ids);
  std::ranges::sort(distinct);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::erase_if(distinct, [rows](int64_t id) { return id < 0 || id >= rows; });
  return distinct;
}

std::vector<int64_t> NumbersFrom(int64_t first, int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

NDArray EmptyRows(const NDArray& table, size_t ids, Context context) {
  return NDArray::Empty({static_cast<int64_t>(ids), table.shape()[1]}, context);
}

NDArray TakeRows(const NDArray& table, const std::vector<int64_t>& ids) {
  const autograd::PauseScope pause;
  return ops::Embedding(NumberArray(ids).AsInContext(table.context()), table);
}

void PutRows(const NDArray& rows, const std::vector<int64_t>& ids, NDArray& table) {
  if (ids.empty()) return;
  const auto bytes = static_cast<size_t>(table.shape()[1]) * sizeof(float);
  Launch("update of rows", table.context(), {rows, table}, {table},
         [ids, bytes, from = DataOf<std::byte>(rows), to = DataOf<std::byte>(table)](Kernels& k) {
           std::vector<CopyArgs> copies;
           for (size_t i = 0; i < ids.size(); ++i)
             copies.push_back({from + i * bytes, to + static_cast<size_t>(ids[i]) * bytes, bytes});
           k.CopyAll({.copies = copies});
         });
}

}  // namespace sluice::internal
