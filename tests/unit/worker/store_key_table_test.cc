#include "worker/store/store_key_table.h"

#include <gmock/gmock.h>

#include <array>

#include "unit/expect_error.h"
#include "unit/worker/store_fixture.h"

namespace sluice::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(StoreKeyTable, AKeyKnowsItsPlacesAndNames) {
  StoreFixture store;
  const StoreKey& key = store.AddKey("w", 10, 4, 3);
  EXPECT_EQ(key.parts, 3u);
  EXPECT_EQ(key.bytes, 40u);
  EXPECT_EQ(key.shard, 3u);
  EXPECT_EQ(key.push.single.text(), "push of key w");
  EXPECT_EQ(key.pull.batched.text(), "pull of key w and others");
}

// Three parts of 1 MiB do not fill a range, and a fifth would be too much. One has parts on both shards.
TEST(StoreKeyTable, TheRangesOfALargeKeyGoToAllShardsInTurn) {
  constexpr int64_t kPart = 1 << 18, kSlice = 9 * kPart;
  wire::KeyEntry entry{.id = 0, .spec = {.name = "w", .dtype = DType::kFloat32, .shape = {2 * kSlice}}};
  entry.slices = {{.shard = 0, .offset = 0, .length = kSlice},
                  {.shard = 1, .offset = kSlice, .length = kSlice}};
  entry.part_elements = kPart;
  const StoreKey key(entry);
  std::vector<std::array<size_t, 4>> ranges;
  for (const KeyRange& range : key.ranges)
    ranges.push_back({range.parts.begin, range.parts.end, range.bytes.offset >> 20, range.bytes.bytes >> 20});
  using R = std::array<size_t, 4>;
  EXPECT_THAT(ranges,
              ElementsAre(R{0, 4, 0, 4}, R{12, 16, 12, 4}, R{4, 8, 4, 4}, R{16, 18, 16, 2}, R{8, 12, 8, 4}));
}

TEST(StoreKeyTable, AKeyOfLessThanTwoRangesHasNone) {
  StoreFixture store;
  constexpr int64_t kTwo = 2 * kRangeBytes / sizeof(float);
  EXPECT_THAT(store.AddKey("a", kTwo - 1, 1 << 18).ranges, IsEmpty());
  EXPECT_THAT(store.AddKey("b", kTwo, 1 << 18).ranges, SizeIs(2));
}

TEST(StoreKeyTable, AKeyThatIsMadeAgainKeepsWhatIsKnownOfIt) {
  StoreFixture store;
  store.AddKey("w", 4, 4).round = 7;
  EXPECT_EQ(store.AddKey("w", 4, 4).round, 7u);
}

TEST(StoreKeyTable, AllKeysOfACallAreFoundOrNone) {
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
