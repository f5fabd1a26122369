#include "kvstore/rows/row_table.h"

#include <tsl/robin_map.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/rng.h"
#include "kvstore/rows/row_fill.h"
#include "kvstore/update/states.h"

namespace sluice::kvstore {
namespace {

constexpr size_t kChunkBytes = 256 << 10;

size_t ElementsOfRow(const wire::KeySpec& spec) {
  return static_cast<size_t>(spec.shape.size() / spec.shape[0]);
}

struct Mixed {
  size_t operator()(int64_t id) const { return MixBits(static_cast<uint64_t>(id)); }
};

}  // namespace

class RowTable::Index : public tsl::robin_map<int64_t, size_t, Mixed> {};

RowTable::RowTable(const wire::KeySpec& spec)
    : dtype_(spec.dtype),
      init_(*spec.rows),
      row_elements_(ElementsOfRow(spec)),
      row_bytes_(row_elements_ * SizeOf(spec.dtype)),
      state_bytes_(SlotBytes(spec.dtype, row_elements_)),
      chunk_rows_(std::bit_ceil(std::max<size_t>(kChunkBytes / row_bytes_, 1))),
      index_(std::make_unique<Index>()) {}

RowTable::~RowTable() = default;

void RowTable::AddChunk(Chunks& chunks, size_t bytes) const {
  chunks.emplace_back(chunk_rows_ * bytes);
}

size_t RowTable::Touch(int64_t id) {
  const size_t next = ids_.size();
  const auto [found, is_new] = index_->try_emplace(id, next);
  if (!is_new) return found->second;
  ids_.push_back(id);
  if (next % chunk_rows_ == 0) {
    AddChunk(weights_, row_bytes_);
    for (Chunks& states : states_) AddChunk(states, state_bytes_);
  }
  FillRow(init_, dtype_, id, row_elements_, Weight(next));
  for (size_t slot = 0; slot < states_.size(); ++slot) std::memset(State(slot, next), 0, state_bytes_);
  return next;
}

void RowTable::FitStates(const Optimizer* optimizer) {
  const auto names = optimizer == nullptr ? std::vector<std::string_view>() : StateNames(*optimizer, dtype_);
  if (names == state_names_) return;
  std::vector<Chunks> fitted;
  for (const std::optional<size_t> kept : KeptStates(state_names_, names)) {
    Chunks& chunks = fitted.emplace_back();
    if (kept) {
      chunks = std::move(states_[*kept]);
      continue;
    }
    for (size_t chunk = 0; chunk < weights_.size(); ++chunk) {
      AddChunk(chunks, state_bytes_);
      std::memset(chunks.back().data(), 0, chunks.back().size());
    }
  }
  states_ = std::move(fitted);
  state_names_ = names;
}

void RowTable::Read(int64_t id, std::byte* to) const {
  const auto found = index_->find(id);
  if (found == index_->end()) return FillRow(init_, dtype_, id, row_elements_, to);
  std::memcpy(to, At(weights_, found->second, row_bytes_), row_bytes_);
}

void RowTable::ReadState(size_t slot, int64_t id, std::byte* to) const {
  const auto found = index_->find(id);
  if (found == index_->end()) {
    std::memset(to, 0, state_bytes_);
  } else {
    std::memcpy(to, At(states_[slot], found->second, state_bytes_), state_bytes_);
  }
}

}  // namespace sluice::kvstore
