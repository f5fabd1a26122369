// An array's origin: which key of which store an array's present value was pulled from. A store sets it when
// it issues the pull; the next write to the array makes it invalid.
#pragma once

#include <memory>

#include "sluice/ndarray.h"

namespace sluice {

// Notes that the last write issued to `array` brings a value of `origin`, a pointer that identifies a
// store's key: it is compared and never dereferenced. Does nothing for a view of a part of a storage.
void SetOrigin(const NDArray& array, const std::shared_ptr<const void>& origin);
// Returns the origin, or null if none was set, or if a write to the array's storage has been issued since.
std::shared_ptr<const void> OriginOf(const NDArray& array);

}  // namespace sluice
