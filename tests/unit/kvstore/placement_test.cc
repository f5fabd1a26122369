#include "kvstore/plan/placement.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace sluice::plan {
namespace {

wire::KeyEntry EntryOf(Placement& placement, int64_t elements, DType dtype) {
  wire::KeyEntry entry;
  entry.spec = {int64_t{1}, dtype, Shape{elements}};
  entry.slices = placement.Place(elements, dtype);
  entry.part_elements = placement.PartElements(entry.slices.empty() ? 0 : entry.slices.front().length, dtype);
  return entry;
}

TEST(Placement, SmallKeysGoWhereTheFewestBytesAre) {
  Placement placement({.num_shards = 3});
  EXPECT_EQ(placement.Place(100, DType::kFloat32), (std::vector<wire::Slice>{{0, 0, 100}}));
  EXPECT_EQ(placement.Place(10, DType::kFloat32), (std::vector<wire::Slice>{{1, 0, 10}}));
  EXPECT_EQ(placement.Place(10, DType::kFloat64), (std::vector<wire::Slice>{{2, 0, 10}}));
  EXPECT_EQ(placement.Place(1, DType::kFloat32), (std::vector<wire::Slice>{{1, 0, 1}}));  // 40 bytes, not 80
  EXPECT_EQ(placement.bytes_per_shard(), (std::vector<uint64_t>{400, 44, 80}));
}

TEST(Placement, BigKeysAreSlicedOverAllShardsAtCacheLines) {
  Placement placement({.num_shards = 3, .bigarray_bound = 1000});
  EXPECT_EQ(placement.Place(999, DType::kFloat32).size(), 1u);
  // 1000 elements are 16 cuts of 64, the last one 40 long: 6, 5 and 5 of them.
  EXPECT_EQ(placement.Place(1000, DType::kFloat32),
            (std::vector<wire::Slice>{{0, 0, 384}, {1, 384, 320}, {2, 704, 296}}));
}

TEST(Placement, FewElementsDoNotReachEveryShard) {
  Placement placement({.num_shards = 4, .bigarray_bound = 1});
  EXPECT_EQ(placement.Place(65, DType::kFloat32), (std::vector<wire::Slice>{{0, 0, 64}, {1, 64, 1}}));
}

TEST(Placement, AKeyWithoutElementsHasNoSlices) {
  Placement placement({.num_shards = 2});
  const wire::KeyEntry entry = EntryOf(placement, 0, DType::kFloat32);
  EXPECT_TRUE(entry.slices.empty());
  EXPECT_TRUE(PartsOf(entry).empty());
  EXPECT_EQ(WhyInvalid(entry, 2), "");
}

TEST(Placement, PartsAreWholeCacheLinesOfAtMostPartBytes) {
  const Placement placement({.part_bytes = 1000});
  EXPECT_EQ(placement.PartElements(5000, DType::kFloat32), 192);  // 768 bytes; 256 elements would be 1024
  EXPECT_EQ(placement.PartElements(5000, DType::kUInt8), 896);    // six, of 960 at most
  EXPECT_EQ(Placement({.part_bytes = 1}).PartElements(5000, DType::kFloat64), 64);  // never less
}

TEST(Placement, ASliceHasFourPartsWithinTheBounds) {
  const Placement placement({});
  EXPECT_EQ(placement.PartElements(100, DType::kFloat32), (128 << 10) / 4);
  EXPECT_EQ(placement.PartElements(1 << 20, DType::kFloat32), (1 << 20) / 4);
  EXPECT_EQ(placement.PartElements(int64_t{1} << 30, DType::kFloat32), (1 << 20) / 4);
}

// What is left over is shared, not a part of its own.
TEST(Placement, NoPartIsMuchShorterThanOthers) {
  const Placement placement({});
  for (const int64_t slice : {750'000, 200'000, 262'145, 300'001, 4'200'000, 16'777'217}) {
    const int64_t part = placement.PartElements(slice, DType::kFloat32);
    EXPECT_LE(part * 4, 1 << 20) << slice;
    EXPECT_EQ(part % 1024, 0) << slice;  // a page
    EXPECT_GT(slice - (slice - 1) / part * part, part * 3 / 4) << slice;
  }
  EXPECT_EQ(placement.PartElements(750'000, DType::kFloat32), 188'416);  // four
}

TEST(Placement, PartsFollowTheSlicesInElementOrder) {
  wire::KeyEntry entry;
  entry.spec = {int64_t{1}, DType::kFloat32, Shape{300}};
  entry.slices = {{2, 0, 200}, {0, 200, 100}};
  entry.part_elements = 128;
  EXPECT_EQ(PartsOf(entry), (std::vector<Part>{{2, 0, 128}, {2, 128, 72}, {0, 200, 100}}));
}

// With its default bound, 100,000 elements: LeNet's 400,000-element layer, 93 % of the model, lies on all
// servers.
TEST(Placement, LeNetIsBalancedByDefault) {
  ASSERT_EQ(PlacementOptions().bigarray_bound, 100'000);
  constexpr int64_t kKeys[] = {500, 20, 25'000, 50, 400'000, 500, 5'000, 10};
  constexpr uint64_t kBytes = 4 * 431'080;
  // A key that stays whole goes where the fewest bytes are: between two shards lie at most the largest of
  // these and one cut of 4 KiB of the large key.
  constexpr uint64_t kApart = 4 * 25'000 + 4096;
  for (const uint32_t shards : {2u, 3u, 4u}) {
    Placement placement({.num_shards = shards});
    for (const int64_t elements : kKeys) {
      EXPECT_EQ(placement.Place(elements, DType::kFloat32).size(), elements == 400'000 ? shards : 1u);
    }
    const auto& load = placement.bytes_per_shard();
    EXPECT_EQ(std::accumulate(load.begin(), load.end(), uint64_t{0}), kBytes);
    const auto [least, most] = std::minmax_element(load.begin(), load.end());
    EXPECT_LE(*most - *least, kApart) << shards;
    EXPECT_LE(*most, (kBytes + (shards - 1) * kApart) / shards) << shards;  // 53 % of two, 38 % of three
    if (shards == 2) {
      EXPECT_LE(*most, kBytes * 55 / 100);
    }
  }
}

// Whatever the sizes: sound, covering, balanced, and the same again from the same declarations.
TEST(Placement, EveryPlacementIsSoundAndBalanced) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Rng rng(seed);
    const PlacementOptions options{.num_shards = static_cast<uint32_t>(1 + rng.Below(9)),
                                   .bigarray_bound = static_cast<int64_t>(1 + rng.Below(5000)),
                                   .part_bytes = static_cast<int64_t>(1 + rng.Below(10'000))};
    Placement placement(options), again(options);
    uint64_t bytes = 0;
    for (int key = 0; key < 100; ++key) {
      const auto elements = static_cast<int64_t>(rng.Below(20'000));
      const DType dtype = kAllDTypes[rng.Below(std::size(kAllDTypes))];
      const wire::KeyEntry entry = EntryOf(placement, elements, dtype);
      ASSERT_EQ(WhyInvalid(entry, options.num_shards), "") << "seed " << seed;
      ASSERT_EQ(entry.slices, again.Place(elements, dtype));
      bytes += static_cast<uint64_t>(elements) * SizeOf(dtype);
      int64_t covered = 0;
      for (const Part& part : PartsOf(entry)) {
        ASSERT_EQ(part.offset, covered);
        ASSERT_EQ(part.offset % 64, 0);
        ASSERT_GT(part.length, 0);
        ASSERT_LE(part.length, entry.part_elements);
        covered += part.length;
      }
      ASSERT_EQ(covered, elements);
    }
    const auto& load = placement.bytes_per_shard();
    EXPECT_EQ(std::accumulate(load.begin(), load.end(), uint64_t{0}), bytes);
    // The greedy choice leaves at most one small key between two shards, and each big key one cut.
    const auto [least, most] = std::minmax_element(load.begin(), load.end());
    EXPECT_LE(*most - *least, 8u * static_cast<uint64_t>(options.bigarray_bound) + 100u * 64 * 8)
        << "seed " << seed;
  }
}

TEST(Placement, UnsoundEntriesAreToldApart) {
  Placement placement({.num_shards = 2, .bigarray_bound = 100});
  const wire::KeyEntry sound = EntryOf(placement, 300, DType::kFloat32);
  ASSERT_EQ(WhyInvalid(sound, 2), "");
  const auto why = [&](const std::function<void(wire::KeyEntry&)>& spoil) {
    wire::KeyEntry entry = sound;
    spoil(entry);
    return WhyInvalid(entry, 2);
  };
  EXPECT_NE(why([](auto& e) { e.part_elements = 0; }), "");
  EXPECT_NE(why([](auto& e) { e.slices[1].shard = 2; }), "");
  EXPECT_NE(why([](auto& e) { e.slices[1].offset += 1; }), "");
  EXPECT_NE(why([](auto& e) { e.slices[1].length -= 1; }), "");
  EXPECT_NE(why([](auto& e) { e.slices[0].length = -5; }), "");
  EXPECT_NE(why([](auto& e) { e.slices.pop_back(); }), "");
  EXPECT_NE(why([](auto& e) { e.slices[1].length = INT64_MAX; }), "");
  EXPECT_NE(why([](auto& e) { std::swap(e.slices[0], e.slices[1]); }), "");
  EXPECT_NE(why([](auto& e) { e.spec.shape = Shape{int64_t{1} << 60}; }), "");
}

TEST(RowPlaces, RowsLieByTurnsInPartsOfAllShards) {
  Placement placement({.num_shards = 2});
  const wire::KeySpec spec{.name = "table", .dtype = DType::kFloat32, .shape = {100, 3}, .rows = RowInit()};
  const wire::KeyEntry entry = placement.EntryOf(4, spec, wire::SyncMode::kSync);
  EXPECT_EQ(WhyInvalid(entry, 2), "");
  const RowPlaces places = PlacesOf(entry);
  EXPECT_EQ(places, PlacesOf(spec, 2));
  EXPECT_EQ(places.parts, 64u);
  const std::vector<Part> parts = PartsOf(entry);
  ASSERT_EQ(parts.size(), 64u);
  std::vector<int64_t> rows(64);
  for (int64_t row = 0; row < 100; ++row) ++rows[places.PartOf(row)];
  for (uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(parts[i].shard, i % 2);
    EXPECT_EQ(places.RowsOf(i), rows[i]);
    EXPECT_EQ(parts[i].length, 3 * rows[i]);
  }
}

TEST(RowPlaces, EveryBlockOfRowsHasOneOfEachPart) {
  for (const uint32_t parts : {1u, 2u, 32u, 200u}) {
    const RowPlaces places{.rows = 20 * int64_t{parts} + parts / 2, .row_elements = 1, .parts = parts};
    std::vector<uint64_t> rows(parts);
    for (int64_t row = 0; row < places.rows; ++row)
      EXPECT_EQ(places.WithinPart(row), rows[places.PartOf(row)]++) << row;
    for (uint32_t part = 0; part < parts; ++part)
      EXPECT_EQ(rows[part], static_cast<uint64_t>(places.RowsOf(part))) << part;
  }
}

// As hashed, packed or padded ids come: 100,000 of a table of ten million rows on two servers.
TEST(RowPlaces, IdsOfAnyStrideSpreadEvenly) {
  constexpr int64_t kTable = 10'000'000, kNamed = 100'000;
  const RowPlaces places{.rows = kTable, .row_elements = 64, .parts = 64};
  for (const int64_t stride : {1, 2, 3, 7, 10, 16, 32, 64, 96, 100}) {
    std::vector<int64_t> named(places.parts);
    for (int64_t i = 0; i < kNamed; ++i) ++named[places.PartOf(i * stride % kTable)];
    EXPECT_LT(std::ranges::max(named), kNamed / places.parts * 5 / 4) << stride;
    EXPECT_GT(std::ranges::min(named), kNamed / places.parts * 3 / 4) << stride;
  }
}

TEST(RowPlaces, ManyShardsHaveFewPartsEach) {
  const wire::KeySpec spec{
      .name = "table", .dtype = DType::kFloat32, .shape = {100'000, 3}, .rows = RowInit()};
  for (const auto& [shards, parts] :
       {std::pair{1u, 32u}, {8u, 256u}, {16u, 256u}, {17u, 255u}, {100u, 200u}, {300u, 300u}})
    EXPECT_EQ(PlacesOf(spec, shards).parts, parts) << shards;
}

TEST(RowPlaces, FewRowsAreFewParts) {
  Placement placement({.num_shards = 8});
  const wire::KeySpec spec{.name = "table", .dtype = DType::kUInt8, .shape = {3}, .rows = RowInit()};
  const wire::KeyEntry entry = placement.EntryOf(0, spec, wire::SyncMode::kSync);
  EXPECT_EQ(WhyInvalid(entry, 8), "");
  EXPECT_EQ(PartsOf(entry).size(), 3u);
  EXPECT_EQ(PlacesOf(entry).row_elements, 1);
}

TEST(RowPlaces, TablesThatLieOtherwiseAreRefused) {
  Placement placement({.num_shards = 2});
  const wire::KeySpec spec{.name = "table", .dtype = DType::kFloat32, .shape = {100, 3}, .rows = RowInit()};
  const wire::KeyEntry sound = placement.EntryOf(4, spec, wire::SyncMode::kSync);
  wire::KeyEntry entry = sound;
  std::swap(entry.slices[0].shard, entry.slices[1].shard);
  EXPECT_NE(WhyInvalid(entry, 2), "");
  entry = sound;
  entry.part_elements -= 1;
  EXPECT_NE(WhyInvalid(entry, 2), "");
  entry = sound;
  entry.slices = {{0, 0, 300}};
  EXPECT_NE(WhyInvalid(entry, 2), "");
  EXPECT_NE(WhyInvalid(sound, 4), "");
  entry = sound;
  entry.spec.rows->center = NAN;
  EXPECT_NE(WhyInvalid(entry, 2), "");
}

}  // namespace
}  // namespace sluice::plan
