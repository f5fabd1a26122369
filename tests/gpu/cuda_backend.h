// A card as a device of the contract (tests/contract/device/): a real one, or one of a test machine.
#pragma once

#include <memory>

#include "contract/device/backend.h"

namespace sluice::testing {

// Makes it of card 0; null where there is no card.
std::shared_ptr<Backend> MakeCudaBackend();

}  // namespace sluice::testing
