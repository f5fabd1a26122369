#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "compression/codec.h"

// The input is a type, a dtype and a length, then a frame. A frame that is accepted must decode to the same
// values in blocks as in one piece.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  using namespace sluice::compression;
  if (size < 4) return 0;
  const auto type = static_cast<Compression>(data[0] % 6);
  const DType dtype = kAllDTypes[data[1] % std::size(kAllDTypes)];
  const size_t elements = data[2] | static_cast<size_t>(data[3]) << 8;
  const Encoded part{reinterpret_cast<const std::byte*>(data) + 4, size - 4, type};
  if (!InvalidReason(part, dtype, elements).empty()) return 0;
  if (dtype != DType::kFloat32 && dtype != DType::kFloat16 && dtype != DType::kBFloat16) return 0;
  std::vector<float> whole(elements), blocks(elements);
  Decode(part, dtype, 0, elements, whole.data());
  for (size_t first = 0; first < elements; first += 3 * kAligned) {
    const size_t n = std::min(3 * kAligned, elements - first);
    AddDecoded(part, dtype, first, n, blocks.data() + first);
  }
  for (size_t i = 0; i < elements; ++i) {
    const bool same = whole[i] == blocks[i] || (whole[i] != whole[i] && blocks[i] != blocks[i]);
    SLUICE_CHECK(same);
  }
  return 0;
}
