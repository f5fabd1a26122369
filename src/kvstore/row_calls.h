// What all stores check and read of calls on row-sparse keys. Free functions are thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvstore/rows/row_batch.h"
#include "kvstore/store_common.h"

namespace sluice::kvstore {

// For InitRowSparse: throws Error(kInvalidArgument) when
// the name, the shape, the dtype or `init` is invalid.
void RequireTable(const Key& key, const Shape& shape, DType dtype, const RowInit& init);

// Throws Error(kInvalidArgument), with a message that begins with `what`, unless the key is row-sparse.
void RequireRowSparse(const std::string& what, const Key& key, const KeyShape& table);

// All ids that a call names, the arrays one after another; waits until they can
// be read. Throws Error(kInvalidArgument), with a message that begins with `what`
// and says which array does not fit the table or which id is not one of its rows.
std::vector<int64_t> ReadIds(const std::string& what, const Key& key, const KeyShape& table,
                             const std::vector<RowSparse>& arrays);

// For SetRowSparse: throws Error(kInvalidArgument) when an id is repeated.
void RequireOnce(const std::string& what, const Key& key, const RowBatch& batch);

// The ids as stores return them: an ascending int64 array of shape {n}.
NDArray SortedIds(std::vector<int64_t> ids);

// The rows of a call in host memory, addressed by position in the
// call. The work on the rows is an operation of context()'s stream.
class HostRows {
 public:
  // The rows of `arrays` for reading; those on GPUs are copied to host memory.
  static HostRows ToRead(const std::vector<RowSparse>& arrays);
  // Room for the rows of `arrays`, which the work writes; Deliver copies it to the arrays that are on GPUs.
  static HostRows ToWrite(const std::vector<RowSparse>& arrays);

  // The context on which the work is best done.
  Context context() const { return hosts_.front().context(); }
  // The events that must be done before the work may read, or write, the rows.
  Events Readable() const;
  void WaitToRead() const;
  Events Writable() const;
  // Register `done`, the end of work that reads the rows, or that writes them.
  void AddReaders(const Event& done) const;
  void Deliver(const Event& done);
  // The row at `position`, for use within the work. The bytes live as long as this object.
  std::byte* At(uint32_t position) const;

 private:
  struct Rows {
    size_t first = 0;  // position of the array's first row
    std::byte* data = nullptr;
    size_t row_bytes = 0;
  };
  void Add(const NDArray& host, int64_t ids);

  std::vector<NDArray> hosts_, outs_;
  std::vector<Rows> rows_;
  size_t positions_ = 0;
};

}  // namespace sluice::kvstore
