// Closing a round of a row-sparse part: the frames, each ascending by id, are merged
// by a priority queue; the gradients of each row are summed in rank order, and rows
// are gathered into blocks that UpdatePart updates like a dense part. The thread
// that owns the table calls it: a shard's, or the context's of a local store.
#include "kvstore/rows/update_rows.h"

#include <algorithm>
#include <queue>
#include <vector>

#include "kvstore/update/sum.h"

namespace sluice::kvstore {
namespace {

// Elements of a block: as in UpdatePart, so that a block stays in the first-level cache.
constexpr size_t kBlock = 2048;

// Rows that are gathered into one block, updated together and written back.
class Block {
 public:
  Block(const UpdateRule& rule, const UpdateInput& input, RowTable* table)
      : rule_(rule),
        input_(input),
        table_(*table),
        elements_(table->row_elements()),
        // An updater is called row by row, since it receives the offset of its elements.
        capacity_(rule.updater ? 1 : std::max<size_t>(kBlock / elements_, 1)),
        sums_(capacity_ * elements_ * sizeof(double)),
        weights_(capacity_ * table->row_bytes()) {
    for (size_t slot = 0; slot < table->num_states(); ++slot)
      states_.push_back(std::make_shared<Buffer>(capacity_ * table->state_bytes()));
  }

  void Add(int64_t id, std::span<const Encoded> gradients) {
    ids_.push_back(id);
    const size_t first = rows_.size() * elements_;
    const size_t row = rows_.emplace_back(table_.Touch(id));
    Sum(gradients, first);
    std::memcpy(weights_.data() + first * SizeOf(dtype()), table_.Weight(row), table_.row_bytes());
    for (size_t slot = 0; slot < states_.size(); ++slot)
      std::memcpy(StateOf(slot, rows_.size() - 1), table_.State(slot, row), table_.state_bytes());
    if (rows_.size() == capacity_) Flush();
  }

  void Flush() {
    if (rows_.empty()) return;
    input_.offset = ids_.front() * static_cast<int64_t>(elements_);
    input_.length = rows_.size() * elements_;
    input_.summed = sums_.data();
    UpdatePart(rule_, input_, weights_.data(), weights_.data(), states_);
    for (size_t i = 0; i < rows_.size(); ++i) {
      std::memcpy(table_.Weight(rows_[i]), weights_.data() + i * table_.row_bytes(), table_.row_bytes());
      for (size_t slot = 0; slot < states_.size(); ++slot)
        std::memcpy(table_.State(slot, rows_[i]), StateOf(slot, i), table_.state_bytes());
    }
    rows_.clear();
    ids_.clear();
  }

 private:
  DType dtype() const { return input_.spec->dtype; }
  std::byte* StateOf(size_t slot, size_t i) { return states_[slot]->data() + i * table_.state_bytes(); }

  template <typename Compute>
  Compute* SumsFrom(size_t first) {
    return sums_.as<Compute>() + first;
  }
  void Sum(std::span<const Encoded> gradients, size_t first) {
    switch (dtype()) {
      case DType::kFloat32:
      case DType::kFloat16:
      case DType::kBFloat16:
        return SumBlock(dtype(), gradients, 0, elements_, SumsFrom<float>(first));
      case DType::kFloat64:
        return SumBlock(gradients, 0, elements_, SumsFrom<double>(first));
      case DType::kInt32:
        return SumBlock(gradients, 0, elements_, SumsFrom<int32_t>(first));
      case DType::kInt64:
        return SumBlock(gradients, 0, elements_, SumsFrom<int64_t>(first));
      case DType::kUInt8:
        return SumBlock(gradients, 0, elements_, SumsFrom<uint8_t>(first));
    }
  }

  const UpdateRule& rule_;
  UpdateInput input_;
  RowTable& table_;
  const size_t elements_, capacity_;  // elements of a row; rows of a block
  Buffer sums_, weights_;
  std::vector<std::shared_ptr<Buffer>> states_;
  std::vector<size_t> rows_;  // rows gathered: their index in the table
  std::vector<int64_t> ids_;
};

// The next row of one frame. The lowest id goes first, and among equal ids the lowest rank.
struct Next {
  int64_t id;
  size_t frame, row;
  bool operator>(const Next& other) const { return id != other.id ? id > other.id : frame > other.frame; }
};

}  // namespace

void UpdateRows(const UpdateRule& rule, UpdateInput input, std::span<const RowFrame> frames,
                RowTable* table) {
  table->FitStates(rule.updater ? nullptr : rule.optimizer.get());
  Block block(rule, input, table);
  std::priority_queue<Next, std::vector<Next>, std::greater<>> heads;
  for (size_t i = 0; i < frames.size(); ++i)
    if (frames[i].size() > 0) heads.push({frames[i].id(0), i, 0});
  std::vector<Encoded> gradients;
  while (!heads.empty()) {
    const int64_t id = heads.top().id;
    gradients.clear();
    while (!heads.empty() && heads.top().id == id) {
      const Next next = heads.top();
      const RowFrame& frame = frames[next.frame];
      heads.pop();
      gradients.push_back({frame.row(next.row), table->row_bytes(), Compression::kNone, frame.scale()});
      if (next.row + 1 < frame.size()) heads.push({frame.id(next.row + 1), next.frame, next.row + 1});
    }
    block.Add(id, gradients);
  }
  block.Flush();
}

}  // namespace sluice::kvstore
