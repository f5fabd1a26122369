// Updating a whole array on its context.
#pragma once

#include "kvstore/update/update.h"

namespace sluice::kvstore {

// On the stream of the array's context, whose threads share the work; norms are measured first where the rule
// needs them. As UpdatePart otherwise, to the last bit.
void UpdateArray(const UpdateRule& rule, UpdateInput input, const std::byte* weight, std::byte* new_weight,
                 std::span<const std::shared_ptr<Buffer>> slots);

}  // namespace sluice::kvstore
