// Whose value an array holds, as far as a store has said so: what is written later says nothing any more.
#pragma once

#include <memory>

#include "sluice/ndarray.h"

namespace sluice {

// The last write that was issued to `array` brings the value of `origin`, which is compared and never looked
// into. For arrays that are a whole storage; views of a part keep nothing.
void SetOrigin(const NDArray& array, const std::shared_ptr<const void>& origin);
// Null where nobody has said so, or where the array's storage has been written since.
std::shared_ptr<const void> OriginOf(const NDArray& array);

}  // namespace sluice
