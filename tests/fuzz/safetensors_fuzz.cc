#include <cstdint>

#include "base/check.h"
#include "data/safetensors/safetensors.h"

// The tensors of an accepted file must be whole, inside the input, and together no larger than it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const sluice::Bytes bytes = std::as_bytes(std::span(data, size));
  const auto index = sluice::ParseSafetensors(bytes, "input");
  if (!index) return 0;
  size_t covered = 0;
  for (const sluice::TensorView& tensor : index.value().tensors) {
    SLUICE_CHECK(static_cast<size_t>(tensor.shape.size()) * SizeOf(tensor.dtype) == tensor.bytes.size());
    if (tensor.bytes.empty()) continue;
    SLUICE_CHECK(tensor.bytes.data() >= bytes.data());
    SLUICE_CHECK(tensor.bytes.data() + tensor.bytes.size() <= bytes.data() + bytes.size());
    SLUICE_CHECK(index.value().Find(tensor.name) == &tensor);
    covered += tensor.bytes.size();
  }
  SLUICE_CHECK(covered <= size);
  return 0;
}
