// The rows of a table (or of a part of one) where they are updated. Only rows that have been touched
// are stored, in the order of their first touch, each with its optimiser states. Not thread-safe.
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
  // `spec` must be that of a row-sparse key.
  explicit RowTable(const wire::KeySpec& spec);
  ~RowTable();

  size_t size() const { return ids_.size(); }            // rows that have been touched
  std::span<const int64_t> ids() const { return ids_; }  // their ids, in the order of first touch
  size_t row_elements() const { return row_elements_; }
  size_t row_bytes() const { return row_bytes_; }
  size_t state_bytes() const { return state_bytes_; }  // bytes of one state of a row

  // Returns the index, below size(), of row `id` for the methods below. A row that has
  // not been touched yet is added, with its initial values and with zeros as states.
  size_t Touch(int64_t id);
  std::byte* Weight(size_t row) { return At(weights_, row, row_bytes_); }
  std::byte* State(size_t slot, size_t row) { return At(states_[slot], row, state_bytes_); }
  size_t num_states() const { return states_.size(); }
  // As kvstore::FitStates, for all rows.
  void FitStates(const Optimizer* optimizer);

  // Copies the row's weight to `to`, or its initial values when it has not been touched.
  void Read(int64_t id, std::byte* to) const;
  // Copies one of the row's states to `to`, or zeros when the row has not been touched.
  void ReadState(size_t slot, int64_t id, std::byte* to) const;

 private:
  // Buffers of chunk_rows_ rows each, so that a table grows without moving its rows.
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
