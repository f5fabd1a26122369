#include "tensor/origin.h"

#include "tensor/storage.h"

namespace sluice {

void SetOrigin(const NDArray& array, const std::shared_ptr<const void>& origin) {
  internal::Storage& storage = *array.storage();
  if (static_cast<size_t>(array.size()) * SizeOf(array.dtype()) == storage.size()) storage.SetOrigin(origin);
}

std::shared_ptr<const void> OriginOf(const NDArray& array) {
  return array.storage()->origin();
}

}  // namespace sluice
