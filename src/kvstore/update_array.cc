#include "kvstore/update_array.h"

#include "tensor/access.h"

namespace sluice::kvstore {

void UpdateArray(const UpdateRule& rule, UpdateInput input, const std::byte* weight, std::byte* new_weight,
                 std::span<const std::shared_ptr<Buffer>> slots) {
  constexpr int64_t kWorthAThread = 1 << 14;  // elements: some 20 us
  if (rule.needs_norms()) {
    Optimizer::Norms norms;
    MeasurePart(rule, input, weight, slots, &norms);
    input.norms = norms;
  }
  ForPieces(static_cast<int64_t>(input.length), kWorthAThread, [&](int64_t begin, int64_t end) {
    UpdateRange(rule, input, weight, new_weight, slots, static_cast<size_t>(begin), static_cast<size_t>(end));
  });
}

}  // namespace sluice::kvstore
