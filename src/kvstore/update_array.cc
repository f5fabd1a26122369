#include "kvstore/update_array.h"

#include <utility>

#include "tensor/access.h"

namespace sluice::kvstore {
namespace {

void UpdateArray(const ArrayUpdate& update, UpdateInput input, const std::byte* weight,
                 std::byte* new_weight) {
  constexpr int64_t kWorthAThread = 1 << 14;  // elements: some 20 us
  const UpdateRule& rule = update.rule;
  const std::span<const std::shared_ptr<Buffer>> slots = update.states;
  input.spec = &update.spec;
  if (rule.needs_norms()) {
    Optimizer::Norms norms;
    MeasurePart(rule, input, weight, slots, &norms);
    input.norms = norms;
  }
  ForPieces(static_cast<int64_t>(input.length), kWorthAThread, [&](int64_t begin, int64_t end) {
    UpdateRange(rule, input, weight, new_weight, slots, static_cast<size_t>(begin), static_cast<size_t>(end));
  });
}

}  // namespace

Event EnqueueUpdate(Label what, std::shared_ptr<const ArrayUpdate> update, UpdateInput input,
                    const NDArray& gradient, NDArray& weight) {
  Events after = PendingUses(weight);
  after.push_back(ReadyToRead(weight));
  after.push_back(ReadyToRead(gradient));
  const Event done = EnqueueOn(weight.context(), std::move(what), after,
                               [update = std::move(update), input, from = HostFrame(gradient),
                                old = HostFrame(weight), to = MutableHostBytes(weight).data()]() mutable {
                                 const std::byte* source[] = {from.data()};
                                 input.gradients = source;
                                 UpdateArray(*update, input, old.data(), to);
                               });
  AddReader(gradient, done);
  SetWriter(weight, done);
  return done;
}

}  // namespace sluice::kvstore
