// Tests transport/shm/segment.h: memory that is shared by its descriptor, sealed, bounded, and a failure
// where there is none.
#include "transport/shm/segment.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cstring>

namespace sluice::transport {
namespace {

using ::testing::HasSubstr;

constexpr size_t kBytes = 3 * 4096;

FileDescriptor Duplicate(int fd) {
  return FileDescriptor(fcntl(fd, F_DUPFD_CLOEXEC, 0));
}
FileDescriptor MemoryFile(size_t bytes, int seals, unsigned flags = 0) {
  FileDescriptor fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  EXPECT_TRUE(fd.valid());
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}
std::string Refusal(const FileDescriptor& fd, uint64_t max_bytes = 1 << 30) {
  const auto mapping = ShmMapping::Of(fd, max_bytes);
  return mapping ? "" : mapping.failure().message;
}

TEST(SegmentTest, WhatIsWrittenIsReadThroughItsDescriptor) {
  const auto segment = ShmSegment::Make(kBytes).OrThrow();
  EXPECT_EQ(segment->size(), kBytes);
  const auto mapping = ShmMapping::Of(Duplicate(segment->fd()), kBytes).OrThrow();
  ASSERT_EQ(mapping->bytes().size(), kBytes);
  EXPECT_NE(mapping->bytes().data(), segment->data());
  std::memset(segment->data(), 7, kBytes);
  for (const std::byte b : mapping->bytes()) ASSERT_EQ(b, std::byte{7});
}

TEST(SegmentTest, AMappingOutlivesItsMaker) {
  auto segment = ShmSegment::Make(kBytes).OrThrow();
  const auto mapping = ShmMapping::Of(Duplicate(segment->fd()), kBytes).OrThrow();
  std::memcpy(segment->data(), "stays", 5);
  segment = nullptr;
  EXPECT_EQ(AsText(mapping->bytes().first(5)), "stays");
}

// Who has the descriptor can read, and nothing else.
TEST(SegmentTest, NobodyElseWritesToItOrChangesItsSize) {
  const auto segment = ShmSegment::Make(kBytes).OrThrow();
  const FileDescriptor theirs = Duplicate(segment->fd());
  EXPECT_EQ(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, theirs.get(), 0), MAP_FAILED);
  EXPECT_EQ(pwrite(theirs.get(), "x", 1, 0), -1);
  EXPECT_EQ(ftruncate(theirs.get(), 0), -1);
  EXPECT_EQ(ftruncate(theirs.get(), 2 * kBytes), -1);
  EXPECT_EQ(fallocate(theirs.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kBytes), -1);
  EXPECT_EQ(fcntl(theirs.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  void* read = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, theirs.get(), 0);
  ASSERT_NE(read, MAP_FAILED);
  EXPECT_EQ(mprotect(read, kBytes, PROT_READ | PROT_WRITE), -1);
  munmap(read, kBytes);
}

TEST(SegmentTest, OnlyMemoryThatCannotShrinkIsMapped) {
  EXPECT_EQ(Refusal(MemoryFile(kBytes, F_SEAL_SHRINK)), "");
  EXPECT_THAT(Refusal(MemoryFile(kBytes, 0)), HasSubstr("no memory sealed against shrinking"));
  EXPECT_THAT(Refusal(MemoryFile(kBytes, F_SEAL_GROW | F_SEAL_WRITE)), HasSubstr("sealed against shrinking"));
  EXPECT_THAT(Refusal(FileDescriptor()), HasSubstr("sealed"));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const FileDescriptor reader(ends[0]), writer(ends[1]);
  EXPECT_THAT(Refusal(reader), HasSubstr("sealed"));
  EXPECT_THAT(Refusal(FileDescriptor(open("/dev/zero", O_RDONLY | O_CLOEXEC))), HasSubstr("sealed"));
}

TEST(SegmentTest, ItsSizeIsBounded) {
  EXPECT_EQ(Refusal(MemoryFile(kBytes, F_SEAL_SHRINK), kBytes), "");
  EXPECT_THAT(Refusal(MemoryFile(kBytes, F_SEAL_SHRINK), kBytes - 1), HasSubstr("12288 bytes; 1 to 12287"));
  EXPECT_THAT(Refusal(MemoryFile(0, F_SEAL_SHRINK)), HasSubstr("0 bytes"));
}

TEST(SegmentTest, MemoryThatIsNotThereIsAFailure) {
  const auto segment = ShmSegment::Make(size_t{1} << 60);
  ASSERT_FALSE(segment.ok());
  EXPECT_EQ(segment.failure().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(segment.failure().message, HasSubstr("shared memory of"));
}

TEST(SegmentTest, BeyondTheLimitOfFilesItIsAFailureAndNoSignal) {
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit low{kBytes, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const bool within = ShmSegment::Make(kBytes).ok();
  const auto beyond = ShmSegment::Make(kBytes + 1);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_TRUE(within);
  ASSERT_FALSE(beyond.ok());
  EXPECT_THAT(beyond.failure().message, HasSubstr("ulimit -f"));
}

}  // namespace
}  // namespace sluice::transport
