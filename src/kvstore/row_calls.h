// Calls on row-sparse keys: what every store checks, and reads, of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvstore/rows/batch.h"
#include "kvstore/store_base.h"

namespace sluice::kvstore {

// Of InitRowSparse. Throws Error(kInvalidArgument).
void RequireTable(const Key& key, const Shape& shape, DType dtype, const RowInit& init);

// Throws Error(kInvalidArgument) that begins with `what` for other keys.
void RequireRowSparse(const std::string& what, const Key& key, const KeyShape& table);

// All ids that a call names, one array behind the other; waits for them. Throws Error(kInvalidArgument) that
// begins with `what` and says which array does not fit the table, or which id is none of its rows.
std::vector<int64_t> ReadIds(const std::string& what, const Key& key, const KeyShape& table,
                             const std::vector<RowSparse>& arrays);

// Of SetRowSparse: throws Error(kInvalidArgument) when an id comes twice.
void RequireOnce(const std::string& what, const Key& key, const RowBatch& batch);

// Ids as a caller gets them: ascending, int64 {n}.
NDArray SortedIds(std::vector<int64_t> ids);

// A call's rows in host memory, by position.
class HostRows {
 public:
  // Of the arrays' own values: those on other devices are copied.
  static HostRows ToRead(const std::vector<RowSparse>& arrays);
  // To be written; Deliver brings what was written to those on other devices.
  static HostRows ToWrite(const std::vector<RowSparse>& arrays);

  // Where work on them is best done.
  Context context() const { return hosts_.front().context(); }
  // What has to be done before the work may read, or write.
  Events Readable() const;
  void WaitToRead() const;
  Events Writable() const;
  // `done` is the end of such work.
  void AddReaders(const Event& done) const;
  void Deliver(const Event& done);
  // From within the work. The bytes live as long as this object.
  std::byte* At(uint32_t position) const;

 private:
  struct Rows {
    size_t first = 0;  // position
    std::byte* data = nullptr;
    size_t row_bytes = 0;
  };
  void Add(const NDArray& host, int64_t ids);

  std::vector<NDArray> hosts_, outs_;
  std::vector<Rows> rows_;
  size_t positions_ = 0;
};

}  // namespace sluice::kvstore
