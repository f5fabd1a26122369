#include "worker/store/key_table.h"

#include <gmock/gmock.h>

#include "unit/expect_error.h"
#include "unit/worker/store_fixture.h"

namespace sluice::worker {
namespace {

using ::testing::HasSubstr;

TEST(KeyTable, AKeyKnowsItsPlacesAndNames) {
  StoreFixture store;
  const StoreKey& key = store.AddKey("w", 10, 4, 3);
  EXPECT_EQ(key.parts, 3u);
  EXPECT_EQ(key.bytes, 40u);
  EXPECT_EQ(key.shard, 3u);
  EXPECT_EQ(key.push.single.text(), "push of key w");
  EXPECT_EQ(key.pull.batched.text(), "pull of key w and others");
}

TEST(KeyTable, AKeyThatIsMadeAgainKeepsWhatIsKnownOfIt) {
  StoreFixture store;
  store.AddKey("w", 4, 4).round = 7;
  EXPECT_EQ(store.AddKey("w", 4, 4).round, 7u);
}

TEST(KeyTable, AllKeysOfACallAreFoundOrNone) {
  StoreFixture store;
  StoreKey& w = store.AddKey("w", 4, 4);
  const auto find = [&](const std::vector<Key>& keys, const std::vector<KVStore::Values>& values) {
    return store.keys.FindAll("Push", kvstore::GroupByKey("Push", keys, values));
  };
  EXPECT_EQ(find({"w"}, {{NDArray({4})}})[0], &w);
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition,
                      [&] {
                        find({"w", "b"}, {{NDArray({4})}, {NDArray({4})}});
                      }),
              HasSubstr("Push of key b: the key has not been initialised"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { find({"w"}, {{NDArray({5})}}); }),
              HasSubstr("Push of key w"));
}

}  // namespace
}  // namespace sluice::worker
