#include "base/pool_allocator.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

TEST(PoolAllocatorTest, BlocksAreAtMostAQuarterLarger) {
  Rng rng(1);
  for (int i = 0; i < 100000; ++i) {
    const size_t size = 1 + (rng.Next() >> (4 + rng.Below(60)));
    const size_t block = PoolAllocator::BlockSize(size);
    ASSERT_GE(block, size);
    ASSERT_LE(static_cast<double>(block), std::max(64.0, 1.25 * static_cast<double>(size))) << size;
    ASSERT_EQ(PoolAllocator::BlockSize(block), block) << size;
    ASSERT_LE(PoolAllocator::BlockSize(size - 1), block) << size;
  }
}

TEST(PoolAllocatorTest, GivesAFreedBlockToTheNextOfAboutItsSize) {
  PoolAllocator pool;
  void* first = pool.Allocate(1000);
  void* other = pool.Allocate(1000);
  EXPECT_NE(first, other);
  pool.Deallocate(first, 1000);
  EXPECT_EQ(pool.Allocate(1020), first);
  pool.Deallocate(first, 1020);
  pool.Deallocate(other, 1000);
}

TEST(PoolAllocatorTest, AlignsToCacheLines) {
  PoolAllocator pool;
  std::vector<std::pair<void*, size_t>> blocks;
  for (size_t size = 0; size < 300000; size = size * 3 / 2 + 1) {
    blocks.emplace_back(pool.Allocate(size), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back().first) % 64, 0u) << size;
  }
  for (const auto& [data, size] : blocks) pool.Deallocate(data, size);
}

TEST(PoolAllocatorTest, NoTwoOwnersShareABlock) {
  PoolAllocator pool(1 << 16);  // so small that some blocks go back to the heap
  const auto work = [&pool](uint8_t mark) {
    Rng rng(mark);
    std::vector<std::pair<void*, size_t>> mine;
    for (int i = 0; i < 3000; ++i) {
      if (mine.size() > 8 || (!mine.empty() && rng.Chance(0.5))) {
        std::swap(mine[rng.Below(mine.size())], mine.back());
        const auto [data, size] = mine.back();
        const auto* bytes = static_cast<const uint8_t*>(data);
        for (size_t at = 0; at < size; ++at) ASSERT_EQ(bytes[at], mark);
        pool.Deallocate(data, size);
        mine.pop_back();
      } else {
        const size_t size = rng.Below(8000);
        mine.emplace_back(pool.Allocate(size), size);
        std::memset(mine.back().first, mark, size);
      }
    }
    for (const auto& [data, size] : mine) pool.Deallocate(data, size);
  };
  std::thread other([&] { work(1); });
  work(2);
  other.join();
}

TEST(PoolAllocatorTest, HoldsObjectsOfTheStandardLibrary) {
  auto pool = std::make_shared<PoolAllocator>();
  const void* first = nullptr;
  for (int round = 0; round < 3; ++round) {
    const auto object = std::allocate_shared<std::array<int, 40>>(MemoryOf<int>(pool));
    if (round == 0) first = object.get();
    EXPECT_EQ(object.get(), first) << round;
  }
  std::vector<int, MemoryOf<int>> numbers{MemoryOf<int>(pool)};
  pool.reset();  // the vector keeps it
  for (int i = 0; i < 1000; ++i) numbers.push_back(i);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(numbers[static_cast<size_t>(i)], i);
}

TEST(PoolAllocatorTest, RefusesWhatDoesNotFit) {
  PoolAllocator pool;
  for (const size_t size : {size_t{1} << 62, (size_t{1} << 63) + 1, ~size_t{0}}) {
    ErrorOf(ErrorCode::kResourceExhausted, [&] { pool.Allocate(size); });
  }
}

}  // namespace
}  // namespace sluice
