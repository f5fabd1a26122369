#include "base/non_temporal_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"

namespace sluice {
namespace {

// Copies have any length, from and to any place in a cache line; no byte beside is touched.
TEST(NonTemporalCopy, IsACopy) {
  Rng rng(1);
  std::vector<std::byte> from(3000);
  for (std::byte& byte : from) byte = static_cast<std::byte>(rng.Below(256));
  for (const size_t size : {0, 1, 15, 63, 64, 65, 127, 128, 200, 1000, 2048}) {
    for (size_t to_shift = 0; to_shift < 66; ++to_shift) {
      const size_t from_shift = rng.Below(70);
      std::vector<std::byte> to(size + 200, std::byte{0xa5});
      std::vector<std::byte> expected = to;
      std::copy_n(from.begin() + static_cast<ptrdiff_t>(from_shift), size,
                  expected.begin() + static_cast<ptrdiff_t>(to_shift));
      NonTemporalCopy(to.data() + to_shift, from.data() + from_shift, size);
      ASSERT_EQ(to, expected) << size << " bytes to " << to_shift << " from " << from_shift;
    }
  }
}

}  // namespace
}  // namespace sluice
