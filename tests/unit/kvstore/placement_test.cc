// Tests kvstore/plan: which shard has which part of a key. Random keys are checked for what every placement
// must keep: parts join without gaps, and shards have even loads.
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

// Elements of the parameters, in the order in which a network declares them.
std::vector<int64_t> LeNet() {
  return {500, 20, 25'000, 50, 400'000, 500, 5'000, 10};
}
std::vector<int64_t> Mlp() {
  return {784 * 128, 128, 128 * 64, 64, 64 * 10, 10};
}
// He et al., "Deep Residual Learning for Image Recognition" (2015), table 1: 25,557,032 weights.
std::vector<int64_t> ResNet50() {
  std::vector<int64_t> keys;
  const auto convolution = [&keys](int64_t in, int64_t out, int64_t window) {
    for (const int64_t elements : {in * out * window * window, out, out}) keys.push_back(elements);
  };
  convolution(3, 64, 7);
  int64_t in = 64;
  for (const auto& [blocks, width] : {std::pair{3, 64}, {4, 128}, {6, 256}, {3, 512}}) {
    for (int block = 0; block < blocks; ++block) {
      convolution(in, width, 1);
      convolution(width, width, 3);
      convolution(width, 4 * width, 1);
      if (block == 0) convolution(in, 4 * width, 1);
      in = 4 * width;
    }
  }
  keys.push_back(2048 * 1000);
  keys.push_back(1000);
  return keys;
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
  EXPECT_EQ(InvalidReason(entry, 2), "");
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

constexpr int64_t kMiB = (1 << 20) / 4;  // in float32

// One MiB on two shards is an eighth of a share once 16 MiB are declared, itself included.
TEST(Placement, KeysThatWeighLittleStayWhole) {
  Placement placement({.num_shards = 2});
  EXPECT_EQ(placement.Place(kMiB, DType::kFloat32).size(), 2u);
  EXPECT_EQ(placement.Place(14 * kMiB - 4, DType::kFloat32).size(), 2u);
  EXPECT_EQ(placement.Place(kMiB, DType::kFloat32).size(), 2u);  // 16 bytes are missing
  EXPECT_EQ(placement.Place(kMiB, DType::kFloat32).size(), 1u);
  EXPECT_EQ(placement.Place(kMiB / 2, DType::kFloat64).size(), 1u);
  const auto& load = placement.bytes_per_shard();
  EXPECT_LE(std::max(load[0], load[1]) - std::min(load[0], load[1]), 4096u);  // they took turns
  for (int i = 0; i < 100; ++i) placement.Place(kMiB, DType::kFloat32);
  EXPECT_EQ(placement.Place(4 * kMiB, DType::kFloat32).size(), 1u);
  EXPECT_EQ(placement.Place(4 * kMiB + 1, DType::kFloat32).size(), 2u);
}

// Slices of 32 KiB until that is an eighth of a share, where the fewest bytes are.
TEST(Placement, OfManyShardsAKeyLiesOnAsManyAsItHasSlicesFor) {
  Placement placement({.num_shards = 100});
  EXPECT_EQ(placement.Place(99'999, DType::kFloat32), (std::vector<wire::Slice>{{0, 0, 99'999}}));
  const std::vector<wire::Slice> slices = placement.Place(kMiB, DType::kFloat32);
  ASSERT_EQ(slices.size(), 32u);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(slices[i], (wire::Slice{i + 1, 8192 * i, 8192}));
  for (int i = 0; i < 100; ++i) placement.Place(kMiB, DType::kFloat32);
  EXPECT_EQ(placement.Place(kMiB, DType::kFloat32).size(), 8u);
  const auto& load = placement.bytes_per_shard();
  EXPECT_LE(std::ranges::max(load) - std::ranges::min(load), 4 * 99'999u);
}

// The share is that of a key's own store, whatever others have.
TEST(Placement, StoresAreBalancedEachByItself) {
  for (const uint32_t shards : {2u, 4u}) {
    Placement placement({.num_shards = shards}), alone({.num_shards = shards});
    for (int i = 0; i < 11; ++i) placement.Place(9'000'000, DType::kFloat32, 0);
    placement.Place(50'000, DType::kFloat32, 0);  // on the first shard
    std::vector<uint64_t> load(shards, 0);
    for (const int64_t elements : LeNet()) {
      const std::vector<wire::Slice> slices = placement.Place(elements, DType::kFloat32, 1);
      EXPECT_EQ(slices.size(), alone.Place(elements, DType::kFloat32).size());
      for (const wire::Slice& slice : slices) load[slice.shard] += static_cast<uint64_t>(4 * slice.length);
    }
    EXPECT_LE(std::ranges::max(load), std::ranges::max(alone.bytes_per_shard()));
  }
  Placement placement({.num_shards = 3});  // on a tie the shard with fewer bytes of others
  placement.Place(100, DType::kFloat32, 0);
  EXPECT_EQ(placement.Place(10, DType::kFloat32, 1), (std::vector<wire::Slice>{{1, 0, 10}}));
}

TEST(Placement, ABoundThatIsSetKnowsNoException) {
  Placement placement({.num_shards = 2, .bigarray_bound = 100'000});
  placement.Place(100'000'000, DType::kFloat32);
  EXPECT_EQ(placement.Place(99'999, DType::kFloat32).size(), 1u);
  EXPECT_EQ(placement.Place(100'000, DType::kFloat32).size(), 2u);
}

// LeNet's 400,000-element layer, 93 % of the model, lies on all of a few servers, as does an MLP's first.
TEST(Placement, NetworksAreBalancedByDefault) {
  ASSERT_FALSE(PlacementOptions().bigarray_bound.has_value());
  const std::vector<int64_t> resnet = ResNet50();
  ASSERT_EQ(std::accumulate(resnet.begin(), resnet.end(), int64_t{0}), 25'557'032);
  struct Case {
    std::vector<int64_t> keys;
    uint32_t shards;
    size_t most_slices;
    double most;  // a factor of an equal share
  };
  for (const Case& network :
       {Case{LeNet(), 2, 9, 1.06}, Case{LeNet(), 3, 10, 1.12}, Case{LeNet(), 4, 11, 1.2},
        Case{LeNet(), 16, 23, 1.9}, Case{Mlp(), 2, 7, 1.09}, Case{ResNet50(), 2, 200, 1.03},
        Case{ResNet50(), 4, 300, 1.06}, Case{ResNet50(), 100, 1900, 1.15}}) {
    SCOPED_TRACE(testing::Message() << network.keys.size() << " keys on " << network.shards << " shards");
    Placement placement({.num_shards = network.shards});
    size_t slices = 0;
    for (const int64_t elements : network.keys) slices += placement.Place(elements, DType::kFloat32).size();
    EXPECT_LE(slices, network.most_slices);
    const auto& load = placement.bytes_per_shard();
    const auto bytes = std::accumulate(load.begin(), load.end(), uint64_t{0});
    EXPECT_LE(static_cast<double>(std::ranges::max(load)) * network.shards / static_cast<double>(bytes),
              network.most);
  }
}

// Expects valid entries with parts that cover their keys, balanced shards, and the same slices every time.
void ExpectValidPlacement(const PlacementOptions& options, Rng& rng, int64_t most_elements) {
  Placement placement(options), again(options);
  uint64_t bytes = 0;
  for (int key = 0; key < 100; ++key) {
    const auto elements = static_cast<int64_t>(rng.Below(static_cast<uint64_t>(most_elements)));
    const DType dtype = kAllDTypes[rng.Below(std::size(kAllDTypes))];
    const wire::KeyEntry entry = EntryOf(placement, elements, dtype);
    ASSERT_EQ(InvalidReason(entry, options.num_shards), "");
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
  const auto [least, most] = std::minmax_element(load.begin(), load.end());
  if (options.bigarray_bound) {
    // The greedy choice leaves at most one small key between two shards, and each big key one cut.
    EXPECT_LE(*most - *least, 8u * static_cast<uint64_t>(*options.bigarray_bound) + 100u * 64 * 8);
  } else {
    // Above an equal share one slice or one key that is not big, and cuts of a page.
    const uint64_t share = bytes / options.num_shards;
    EXPECT_LE(*most, share + std::max(MostSliceBytes(share), uint64_t{8} * kBigArrayBound) + 100 * 4096);
  }
}

TEST(Placement, EveryPlacementIsValidAndBalanced) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    PlacementOptions options{.num_shards = static_cast<uint32_t>(1 + rng.Below(9)),
                             .bigarray_bound = static_cast<int64_t>(1 + rng.Below(5000)),
                             .part_bytes = static_cast<int64_t>(1 + rng.Below(10'000))};
    ExpectValidPlacement(options, rng, 20'000);
    options.bigarray_bound.reset();
    options.part_bytes = PlacementOptions().part_bytes;
    ExpectValidPlacement(options, rng, 1'500'000);
  }
}

TEST(Placement, InvalidEntriesAreToldApart) {
  Placement placement({.num_shards = 2, .bigarray_bound = 100});
  const wire::KeyEntry valid = EntryOf(placement, 300, DType::kFloat32);
  ASSERT_EQ(InvalidReason(valid, 2), "");
  const auto why = [&](const std::function<void(wire::KeyEntry&)>& spoil) {
    wire::KeyEntry entry = valid;
    spoil(entry);
    return InvalidReason(entry, 2);
  };
  EXPECT_NE(why([](auto& e) { e.part_elements = 0; }), "");
  EXPECT_NE(why([](auto& e) { e.slices[1].shard = 2; }), "");
  EXPECT_NE(why([](auto& e) { e.slices[1].offset += 1; }), "");
  EXPECT_NE(why([](auto& e) { e.slices[1].length -= 1; }), "");
  EXPECT_NE(why([](auto& e) { e.slices[0].length = -5; }), "");
  EXPECT_NE(why([](auto& e) { e.slices.pop_back(); }), "");
  EXPECT_NE(why([](auto& e) { e.slices.insert(e.slices.begin(), {.shard = 0, .offset = 0, .length = 0}); }),
            "");
  EXPECT_NE(why([](auto& e) { e.slices[1].length = INT64_MAX; }), "");
  EXPECT_NE(why([](auto& e) { std::swap(e.slices[0], e.slices[1]); }), "");
  EXPECT_NE(why([](auto& e) { e.spec.shape = Shape{int64_t{1} << 60}; }), "");
}

TEST(RowPlaces, RowsLieByTurnsInPartsOfAllShards) {
  Placement placement({.num_shards = 2});
  const wire::KeySpec spec{.name = "table", .dtype = DType::kFloat32, .shape = {100, 3}, .rows = RowInit()};
  const wire::KeyEntry entry = placement.EntryOf(4, spec, wire::SyncMode::kSync);
  EXPECT_EQ(InvalidReason(entry, 2), "");
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
  EXPECT_EQ(InvalidReason(entry, 8), "");
  EXPECT_EQ(PartsOf(entry).size(), 3u);
  EXPECT_EQ(PlacesOf(entry).row_elements, 1);
}

TEST(RowPlaces, TablesThatLieOtherwiseAreRefused) {
  Placement placement({.num_shards = 2});
  const wire::KeySpec spec{.name = "table", .dtype = DType::kFloat32, .shape = {100, 3}, .rows = RowInit()};
  const wire::KeyEntry valid = placement.EntryOf(4, spec, wire::SyncMode::kSync);
  wire::KeyEntry entry = valid;
  std::swap(entry.slices[0].shard, entry.slices[1].shard);
  EXPECT_NE(InvalidReason(entry, 2), "");
  entry = valid;
  entry.part_elements -= 1;
  EXPECT_NE(InvalidReason(entry, 2), "");
  entry = valid;
  entry.slices = {{0, 0, 300}};
  EXPECT_NE(InvalidReason(entry, 2), "");
  EXPECT_NE(InvalidReason(valid, 4), "");
  entry = valid;
  entry.spec.rows->center = NAN;
  EXPECT_NE(InvalidReason(entry, 2), "");
}

}  // namespace
}  // namespace sluice::plan
