#include "allocations.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <memory>
#include <sstream>
#include <vector>

#include "base/buffer.h"
#include "sluice/ndarray.h"
#include "sluice/nn.h"

namespace sluice::bench {
namespace {

uint64_t Calls(AllocatedBy who) {
  return CountOf(who).calls;
}

TEST(Allocations, OfTheProgramCountToTheCallAndTheByte) {
  std::vector<std::unique_ptr<std::array<char, 100>>> blocks(7);
  StartCountingAllocations();
  for (auto& block : blocks) block = std::make_unique<std::array<char, 100>>();
  StopCountingAllocations();
  blocks.emplace_back(std::make_unique<std::array<char, 100>>());  // no longer counted
  EXPECT_EQ(Calls(AllocatedBy::kSluice), 7u);
  EXPECT_EQ(CountOf(AllocatedBy::kSluice).bytes, 700u);
  for (const AllocatedBy who : {AllocatedBy::kArrays, AllocatedBy::kOneDnn, AllocatedBy::kOthers})
    EXPECT_EQ(Calls(who), 0u) << Name(who);
  const std::vector<AllocationSite> sites = AllocationSites();
  ASSERT_EQ(sites.size(), 1u);
  EXPECT_EQ(sites.front().count.calls, 7u);
  EXPECT_TRUE(sites.front().frames.front().starts_with("unit_bench+0x")) << sites.front().frames.front();
}

TEST(Allocations, StartFromZero) {
  StartCountingAllocations();
  auto first = std::make_unique<std::array<char, 100>>();
  StartCountingAllocations();
  StopCountingAllocations();
  EXPECT_EQ(Calls(AllocatedBy::kSluice), 0u);
}

// The memory of the stream comes from code inside libstdc++.
TEST(Allocations, InsideTheStandardLibraryAreItsCallers) {
  std::ostringstream out;
  const std::string text(1000, 'x');
  StartCountingAllocations();
  out << text;
  StopCountingAllocations();
  EXPECT_GT(Calls(AllocatedBy::kSluice), 0u);
  EXPECT_EQ(Calls(AllocatedBy::kOthers), 0u);
}

TEST(Allocations, BehindTheAllocatorSeamAreArrays) {
  HeapAllocator();  // made on first use
  StartCountingAllocations();
  const Buffer small(10), large(1 << 20);
  StopCountingAllocations();
  EXPECT_EQ(Calls(AllocatedBy::kArrays), 2u);
  EXPECT_EQ(Calls(AllocatedBy::kSluice), 0u);
}

TEST(Allocations, OfOtherLibrariesAreTheirs) {
  z_stream stream{};
  StartCountingAllocations();
  ASSERT_EQ(deflateInit(&stream, 6), Z_OK);
  StopCountingAllocations();
  deflateEnd(&stream);
  EXPECT_GT(Calls(AllocatedBy::kOthers), 0u);
  EXPECT_EQ(Calls(AllocatedBy::kSluice), 0u);
}

TEST(Allocations, OfOneDnnAreToldFromOurs) {
  nn::Conv2D layer(4, 3);
  for (const auto& parameter : layer.CollectParams()) parameter->Initialize({cpu(0)});
  StartCountingAllocations();
  layer(NDArray({2, 1, 300, 300})).WaitToRead();  // more than what other tests have left in the pool
  StopCountingAllocations();
  EXPECT_GT(Calls(AllocatedBy::kOneDnn), 0u);
  EXPECT_GT(Calls(AllocatedBy::kSluice), 0u);
  EXPECT_GT(Calls(AllocatedBy::kArrays), 0u);
}

}  // namespace
}  // namespace sluice::bench
