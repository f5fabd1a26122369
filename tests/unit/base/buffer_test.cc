#include "base/buffer.h"

#include <gtest/gtest.h>

#include "sluice/error.h"

namespace sluice {
namespace {

class CountingAllocator final : public Allocator {
 public:
  void* Allocate(size_t size) override {
    live += static_cast<int64_t>(size);
    return HeapAllocator()->Allocate(size);
  }
  void Deallocate(void* data, size_t size) noexcept override {
    live -= static_cast<int64_t>(size);
    HeapAllocator()->Deallocate(data, size);
  }
  int64_t live = 0;
};

TEST(Buffer, IsAlignedForVectorsAtEverySize) {
  for (const size_t size : {0u, 1u, 63u, 64u, 65u, 4097u, 1u << 20}) {
    Buffer buffer(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u) << size;
    EXPECT_EQ(buffer.size(), size);
  }
}

TEST(Buffer, GivesMemoryBackToItsAllocatorOnce) {
  auto allocator = std::make_shared<CountingAllocator>();
  {
    Buffer a(100, allocator);
    Buffer b = std::move(a);
    EXPECT_EQ(allocator->live, 100);
    b = Buffer(7, allocator);
    EXPECT_EQ(allocator->live, 7);
  }
  EXPECT_EQ(allocator->live, 0);
}

TEST(Buffer, AskingForMoreThanThereIsNamesTheSize) {
  try {
    Buffer buffer(size_t{1} << 62);
    FAIL() << "allocated 4 EiB";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kResourceExhausted);
    EXPECT_NE(std::string(e.what()).find("TiB"), std::string::npos) << e.what();
  }
}

TEST(Frame, SlicesShareTheOwner) {
  auto allocator = std::make_shared<CountingAllocator>();
  auto buffer = std::make_shared<Buffer>(8, allocator);
  std::memcpy(buffer->data(), "abcdefgh", 8);
  Frame part = Frame::Of(buffer).Slice(2, 3);
  buffer.reset();
  EXPECT_EQ(AsText(part.bytes()), "cde");
  EXPECT_EQ(allocator->live, 8);
  part = Frame();
  EXPECT_EQ(allocator->live, 0);
}

TEST(Frame, CopyIsIndependentOfItsSource) {
  std::string text = "gradient";
  const Frame frame = Frame::Copy(AsBytes(text));
  text[0] = 'G';
  EXPECT_EQ(AsText(frame.bytes()), "gradient");
}

}  // namespace
}  // namespace sluice
