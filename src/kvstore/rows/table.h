// A table's rows as they are kept where they are updated: those that have been touched, in the order of their
// first touch, each with its optimiser states beside it.
//
// Thread safety: one caller.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "sluice/optimizer.h"
#include "wire/messages.h"

namespace sluice::kvstore {

class RowTable {
 public:
  // Of a row-sparse key.
  explicit RowTable(const wire::KeySpec& spec);
  ~RowTable();

  size_t size() const { return ids_.size(); }            // rows touched
  std::span<const int64_t> ids() const { return ids_; }  // of them, in this order
  size_t row_elements() const { return row_elements_; }
  size_t row_bytes() const { return row_bytes_; }
  size_t state_bytes() const { return state_bytes_; }  // of one state of a row

  // Row `id` of the table, which is made if it is new: a number below size(), for the methods below.
  size_t Touch(int64_t id);
  std::byte* Weight(size_t row) { return At(weights_, row, row_bytes_); }
  std::byte* State(size_t slot, size_t row) { return At(states_[slot], row, state_bytes_); }
  size_t num_states() const { return states_.size(); }
  // As kvstore::FitStates, of all rows.
  void FitStates(const Optimizer* optimizer);

  // The row's weight as it is, or as it would begin.
  void Read(int64_t id, std::byte* to) const;
  // One of its states: zeros where it was not touched.
  void ReadState(size_t slot, int64_t id, std::byte* to) const;

 private:
  // Chunks of so many rows each: a table grows without moving.
  using Chunks = std::vector<Buffer>;
  class Index;

  std::byte* At(Chunks& chunks, size_t row, size_t bytes) const {
    return chunks[row / chunk_rows_].data() + row % chunk_rows_ * bytes;
  }
  const std::byte* At(const Chunks& chunks, size_t row, size_t bytes) const {
    return chunks[row / chunk_rows_].data() + row % chunk_rows_ * bytes;
  }
  void AddChunk(Chunks& chunks, size_t bytes) const;

  const DType dtype_;
  const RowInit init_;
  const size_t row_elements_, row_bytes_, state_bytes_, chunk_rows_;
  std::unique_ptr<Index> index_;
  std::vector<int64_t> ids_;
  Chunks weights_;
  std::vector<std::string_view> state_names_;
  std::vector<Chunks> states_;  // by slot
};

}  // namespace sluice::kvstore
