// The checks of calls on row-sparse keys, and HostRows: access to the rows that a call names, wherever the
// arrays lie. Invariants: positions count the rows of all arrays of a call, one array after another; HostRows
// keeps the arrays alive whose bytes At returns. LocalRowSparseKeys and RowSparseKeys (worker/store) call
// this on the program's threads, and DistStore calls RequireTable there. The work that they enqueue calls At
// as well, on the thread that runs it, and keeps the HostRows alive.
#include "kvstore/row_calls.h"

#include <algorithm>

#include "base/strings.h"
#include "kvstore/copy_to_gpu.h"
#include "sluice/error.h"
#include "tensor/access.h"

namespace sluice::kvstore {
namespace {

template <typename Int>
void AppendIds(const NDArray& host, std::vector<int64_t>* ids) {
  const Bytes bytes = HostBytes(host);
  const auto* values = reinterpret_cast<const Int*>(bytes.data());
  ids->insert(ids->end(), values, values + host.size());
}

std::string Described(const NDArray& array) {
  return array.valid() ? StrCat(Name(array.dtype()), " ", array.shape()) : "no array";
}

// The axes of the ids, followed by those of a row.
Shape RowsShape(const Shape& ids, const Shape& table) {
  std::vector<int64_t> dims(ids.dims().begin(), ids.dims().end());
  dims.insert(dims.end(), table.dims().begin() + 1, table.dims().end());
  return Shape(std::span<const int64_t>(dims));
}

void RequireRows(const std::string& of_key, const KeyShape& table, const RowSparse& given) {
  const auto refuse = [&](const auto&... why) {
    throw Error(ErrorCode::kInvalidArgument, StrCat(of_key, ": ", why...));
  };
  const NDArray& ids = given.ids;
  if (!ids.valid() || (ids.dtype() != DType::kInt64 && ids.dtype() != DType::kInt32))
    refuse("ids are ", Described(ids), "; int64 or int32 is expected");
  if (const size_t axes = ids.shape().ndim() + table.shape.ndim() - 1; axes > Shape::kMaxAxes)
    refuse("ids ", ids.shape(), " and the rows of ", table.shape, " have ", axes, " axes together; at most ",
           Shape::kMaxAxes, " are taken");
  const Shape rows = RowsShape(ids.shape(), table.shape);
  if (!given.rows.valid() || given.rows.shape() != rows || given.rows.dtype() != table.dtype) {
    refuse("rows are ", Described(given.rows), " for ", ids.size(), " ids; the key is ", Name(table.dtype),
           " ", table.shape, ", so they are ", Name(table.dtype), " ", rows);
  }
}

}  // namespace

void RequireTable(const Key& key, const Shape& shape, DType dtype, const RowInit& init) {
  RequireName(key);
  if (const std::string why = InvalidReason(init, shape, dtype); !why.empty())
    throw Error(ErrorCode::kInvalidArgument, StrCat("InitRowSparse of key ", ToString(key), ": ", why));
}

void RequireRowSparse(const std::string& what, const Key& key, const KeyShape& table) {
  if (table.row_sparse) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      StrCat(what, " of key ", ToString(key), ": the key is not row-sparse; InitRowSparse makes such keys"));
}

std::vector<int64_t> ReadIds(const std::string& what, const Key& key, const KeyShape& table,
                             const std::vector<RowSparse>& arrays) {
  const std::string of_key = StrCat(what, " of key ", ToString(key));
  const auto refuse = [&](const auto&... why) {
    throw Error(ErrorCode::kInvalidArgument, StrCat(of_key, ": ", why...));
  };
  RequireRowSparse(what, key, table);
  if (arrays.empty()) refuse("it comes without an array");
  std::vector<int64_t> ids;
  for (const RowSparse& given : arrays) {
    RequireRows(of_key, table, given);
    const size_t first = ids.size();
    const NDArray host = HostArray(given.ids);
    host.WaitToRead();
    host.dtype() == DType::kInt64 ? AppendIds<int64_t>(host, &ids) : AppendIds<int32_t>(host, &ids);
    const auto outside = std::find_if(ids.begin() + static_cast<int64_t>(first), ids.end(),
                                      [&](int64_t id) { return id < 0 || id >= table.shape[0]; });
    if (outside != ids.end()) {
      refuse("id ", outside - ids.begin() - static_cast<int64_t>(first), " is row ", *outside,
             "; the key has rows 0 to ", table.shape[0] - 1);
    }
  }
  if (ids.size() > UINT32_MAX) refuse(ids.size(), " ids in one call; at most ", UINT32_MAX, " are taken");
  return ids;
}

void RequireOnce(const std::string& what, const Key& key, const RowBatch& batch) {
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch.PositionsOf(i).size() == 1) continue;
    throw Error(ErrorCode::kInvalidArgument,
                StrCat(what, " of key ", ToString(key), ": row ", batch.ids[i], " comes ",
                       batch.PositionsOf(i).size(), " times; once is meant"));
  }
}

NDArray SortedIds(std::vector<int64_t> ids) {
  std::ranges::sort(ids);
  return NDArray::From(std::span<const int64_t>(ids), {static_cast<int64_t>(ids.size())});
}

void HostRows::WaitToRead() const {
  for (const NDArray& host : hosts_) host.WaitToRead();
}

void HostRows::Add(const NDArray& host, int64_t ids) {
  NDArray array = hosts_.emplace_back(host);
  const auto rows = static_cast<size_t>(ids);
  const MutableBytes bytes = MutableHostBytes(array);
  rows_.push_back({positions_, bytes.data(), rows == 0 ? 0 : bytes.size() / rows});
  positions_ += rows;
}

HostRows HostRows::ToRead(const std::vector<RowSparse>& arrays) {
  HostRows rows;
  for (const RowSparse& given : arrays) rows.Add(HostArray(given.rows), given.ids.size());
  return rows;
}

HostRows HostRows::ToWrite(const std::vector<RowSparse>& arrays) {
  HostRows rows;
  for (const RowSparse& given : arrays) {
    rows.outs_.push_back(given.rows);
    const Context host = HostContextOf(given.rows.context());
    rows.Add(OnHost(given.rows) ? given.rows : NDArray::Empty(given.rows.shape(), host, given.rows.dtype()),
             given.ids.size());
  }
  return rows;
}

Events HostRows::Readable() const {
  Events events;
  for (const NDArray& host : hosts_) events.push_back(ReadyToRead(host));
  return events;
}

Events HostRows::Writable() const {
  Events events;
  for (const NDArray& host : hosts_)
    for (const Event& use : PendingUses(host)) events.push_back(use);
  return events;
}

void HostRows::AddReaders(const Event& done) const {
  for (const NDArray& host : hosts_) AddReader(host, done);
}

void HostRows::Deliver(const Event& done) {
  for (size_t i = 0; i < hosts_.size(); ++i) {
    SetWriter(hosts_[i], done);
    if (!hosts_[i].SharesStorage(outs_[i]))
      CopyToGpuOnceDelivered(hosts_[i], outs_[i], DeliveryOf(hosts_[i], done), PendingUses(outs_[i]));
  }
}

std::byte* HostRows::At(uint32_t position) const {
  const auto after =
      std::find_if(rows_.begin() + 1, rows_.end(), [&](const Rows& rows) { return rows.first > position; });
  const Rows& rows = *(after - 1);
  return rows.data + (position - rows.first) * rows.row_bytes;
}

}  // namespace sluice::kvstore
