#include "base/hash.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

// The test vectors of the authors' page, http://www.isthe.com/chongo/tech/comp/fnv.
TEST(HashTest, IsFnv1a) {
  EXPECT_EQ(Fnv1a(""), 0xcbf29ce484222325);
  EXPECT_EQ(Fnv1a("a"), 0xaf63dc4c8601ec8c);
  EXPECT_EQ(Fnv1a("foobar"), 0x85944171f73967e8);
  EXPECT_EQ(Fnv1a("\xff"), (0xcbf29ce484222325 ^ 0xff) * 0x100000001b3);  // a byte, whatever char's sign
}

}  // namespace
}  // namespace sluice
