// Tests transport/shm/shared_heap.h: blocks do not overlap, large ones have a segment of their own, and freed
// neighbours join.
#include "transport/shm/shared_heap.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "base/rng.h"

namespace sluice::transport {
namespace {

constexpr size_t kSegment = 1 << 20;
constexpr size_t kPage = 4096;

Bytes BytesAt(const void* data, size_t size) {
  return {static_cast<const std::byte*>(data), size};
}

TEST(SharedHeapTest, ABlockIsFoundByAnyOfItsBytes) {
  SharedHeap heap({.segment_bytes = kSegment});
  auto* block = static_cast<std::byte*>(heap.Allocate(10'000));
  const auto whole = heap.Find(BytesAt(block, 10'000));
  const auto part = heap.Find(BytesAt(block + 5000, 5000));
  ASSERT_TRUE(whole && part);
  EXPECT_EQ(whole->number, part->number);
  EXPECT_EQ(part->offset, whole->offset + 5000);
  std::memcpy(block + 5000, "here", 4);
  EXPECT_EQ(std::memcmp(part->segment->data() + part->offset, "here", 4), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
  heap.Deallocate(block, 10'000);
}

TEST(SharedHeapTest, SmallBlocksAndOtherMemoryAreNotShared) {
  SharedHeap heap({.segment_bytes = kSegment, .min_leased_bytes = 4096});
  void* small = heap.Allocate(4095);
  EXPECT_FALSE(heap.Find(BytesAt(small, 4095)));
  heap.Deallocate(small, 4095);
  const int other = 0;
  EXPECT_FALSE(heap.Find(BytesAt(&other, sizeof other)));
  void* shared = heap.Allocate(4096);
  EXPECT_TRUE(heap.Find(BytesAt(shared, 4096)));
  EXPECT_FALSE(heap.Find(BytesAt(&other, sizeof other)));
  heap.Deallocate(shared, 4096);
}

TEST(SharedHeapTest, ALargeBlockHasASegmentOfItsOwnThatGoesWithIt) {
  SharedHeap heap({.segment_bytes = kSegment});
  void* small = heap.Allocate(kPage);
  void* large = heap.Allocate(3 * kSegment);
  const uint64_t number = heap.Find(BytesAt(large, 3 * kSegment))->number;
  EXPECT_NE(number, heap.Find(BytesAt(small, kPage))->number);
  EXPECT_TRUE(heap.Has(number));
  EXPECT_EQ(heap.gone(), 0u);
  heap.Deallocate(large, 3 * kSegment);
  EXPECT_FALSE(heap.Has(number));
  EXPECT_EQ(heap.gone(), 1u);
  void* again = heap.Allocate(3 * kSegment);
  EXPECT_NE(heap.Find(BytesAt(again, 1))->number, number);
  heap.Deallocate(again, 3 * kSegment);
  heap.Deallocate(small, kPage);
}

// A segment is unmapped when its last user is gone, which may be after the heap.
TEST(SharedHeapTest, WhoAsksIsToldWhatIsMappedAndBeforeItIsUnmapped) {
  std::vector<MutableBytes> mapped, unmapping;
  std::optional<SharedHeap::Location> held;
  {
    SharedHeap heap({.segment_bytes = kSegment,
                     .mapped = [&](MutableBytes memory) { mapped.push_back(memory); },
                     .unmapping =
                         [&](MutableBytes memory) {
                           memory[0] = std::byte{1};  // it is still there
                           unmapping.push_back(memory);
                         }});
    void* const small = heap.Allocate(kPage);
    void* const large = heap.Allocate(3 * kSegment);
    ASSERT_EQ(mapped.size(), 2u);
    EXPECT_EQ(mapped[0].data(), small);
    EXPECT_EQ(mapped[1].data(), large);
    EXPECT_GE(mapped[1].size(), 3 * kSegment);
    heap.Deallocate(large, 3 * kSegment);
    ASSERT_EQ(unmapping.size(), 1u);
    EXPECT_EQ(unmapping[0].data(), mapped[1].data());
    held = heap.Find(BytesAt(small, kPage));
    heap.Deallocate(small, kPage);
  }
  EXPECT_EQ(unmapping.size(), 1u) << "the segment is held";
  held.reset();
  EXPECT_EQ(unmapping.size(), 2u);
}

TEST(SharedHeapTest, FreedNeighboursMakeRoomAgain) {
  SharedHeap heap({.segment_bytes = kSegment});
  std::vector<void*> blocks;
  for (size_t i = 0; i < kSegment / kPage; ++i) blocks.push_back(heap.Allocate(kPage));
  const uint64_t number = heap.Find(BytesAt(blocks[0], 1))->number;
  for (size_t i = 0; i < blocks.size(); i += 2) heap.Deallocate(blocks[i], kPage);
  for (size_t i = 1; i < blocks.size(); i += 2) heap.Deallocate(blocks[i], kPage);
  void* whole = heap.Allocate(kSegment);
  EXPECT_EQ(heap.Find(BytesAt(whole, kSegment))->number, number);
  heap.Deallocate(whole, kSegment);
}

TEST(SharedHeapTest, WhatCannotBeSharedComesFromTheHeap) {
  SharedHeap heap({.segment_bytes = size_t{1} << 60});
  void* block = heap.Allocate(kPage);
  std::memset(block, 1, kPage);
  EXPECT_FALSE(heap.Find(BytesAt(block, kPage)));
  heap.Deallocate(block, kPage);
  EXPECT_THROW(heap.Allocate(SIZE_MAX - 100), Error);
}

// No two blocks overlap, and each keeps what was written, whatever comes and goes.
TEST(SharedHeapTest, BlocksDoNotOverlap) {
  SharedHeap heap({.segment_bytes = kSegment});
  struct Block {
    size_t size;
    unsigned char mark;
  };
  Rng rng(1);
  std::map<unsigned char*, Block> blocks;
  for (int step = 0; step < 3000; ++step) {
    if (blocks.size() > 40 || (!blocks.empty() && rng.Chance(0.4))) {
      auto it = blocks.begin();
      std::advance(it, static_cast<long>(rng.Below(blocks.size())));
      const auto& [data, block] = *it;
      for (const size_t at : {size_t{0}, block.size / 2, block.size - 1}) ASSERT_EQ(data[at], block.mark);
      heap.Deallocate(data, block.size);
      blocks.erase(it);
      continue;
    }
    const size_t size = 1 + rng.Below(rng.Chance(0.02) ? 3 * kSegment : 100'000);
    auto* data = static_cast<unsigned char*>(heap.Allocate(size));
    const auto mark = static_cast<unsigned char>(rng.Below(256));
    std::memset(data, mark, size);
    const auto next = blocks.lower_bound(data);
    ASSERT_TRUE(next == blocks.end() || data + size <= next->first);
    ASSERT_TRUE(next == blocks.begin() || std::prev(next)->first + std::prev(next)->second.size <= data);
    blocks[data] = {size, mark};
  }
  for (const auto& [data, block] : blocks) heap.Deallocate(data, block.size);
}

TEST(SharedHeapTest, ThreadsMayUseItTogether) {
  SharedHeap heap({.segment_bytes = kSegment});
  std::vector<std::thread> threads;
  for (unsigned char mark = 1; mark <= 4; ++mark) {
    threads.emplace_back([&heap, mark] {
      for (int i = 0; i < 300; ++i) {
        const size_t size = 5000 + static_cast<size_t>(i) * 100;
        auto* data = static_cast<unsigned char*>(heap.Allocate(size));
        std::memset(data, mark, size);
        EXPECT_TRUE(heap.Find(BytesAt(data, size)));
        EXPECT_EQ(data[size - 1], mark);
        heap.Deallocate(data, size);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace sluice::transport
