#include "base/philox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using ::testing::ElementsAre;

// The known answers of Random123 (kat_vectors, philox4x32 10), the authors' library.
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_THAT(Philox({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(Philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(Philox, LanesAreTheNextCounters) {
  uint32_t words[64];
  PhiloxWords<16>(5, 6, 7, 8, {9, 10}, words);
  for (uint32_t lane = 0; lane < 16; ++lane) {
    const auto alone = Philox({5 + lane, 6, 7, 8}, {9, 10});
    for (uint32_t word = 0; word < 4; ++word) EXPECT_EQ(words[4 * lane + word], alone[word]) << lane;
  }
}

}  // namespace
}  // namespace sluice
