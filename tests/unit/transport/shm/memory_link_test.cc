// Tests transport/shm/memory_link.h: leases of memory between two ends, which the test plays both. Whatever a
// peer says that it may not is refused, or ends the link.
#include "transport/shm/memory_link.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "transport/shm/unix_socket.h"

namespace sluice::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Two ends, as a rendezvous makes them, each with a heap of its own.
class MemoryLinkTest : public ::testing::Test {
 protected:
  MemoryLinkTest() {
    auto [one, other] = MakeSocketPair().OrThrow();
    const auto returns = LeaseReturns::Make().OrThrow();
    const auto seen = LeaseReturnsView::Of(Duplicate(returns->fd())).OrThrow();
    worker_ = std::make_unique<MemoryLink>(std::move(one), returns, nullptr, worker_heap_, HeapAllocator());
    shard_ = std::make_unique<MemoryLink>(std::move(other), LeaseReturns::Make().OrThrow(), seen, shard_heap_,
                                          HeapAllocator());
  }
  void Meet() {
    ASSERT_TRUE(shard_->SendReturns());
    worker_->Read();
    ASSERT_TRUE(worker_->ready() && shard_->ready());
  }
  static FileDescriptor Duplicate(int fd) { return FileDescriptor(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }
  // Shared by `heap`; `held` tells whether anybody holds it.
  static Frame Shared(const std::shared_ptr<SharedHeap>& heap, const std::string& text,
                      std::weak_ptr<const Buffer>* held = nullptr) {
    const auto buffer = std::make_shared<Buffer>(std::max(text.size(), heap->min_leased_bytes()), heap);
    std::memcpy(buffer->data(), text.data(), text.size());
    if (held) *held = buffer;
    return Frame::Of(buffer).Slice(0, text.size());
  }
  static std::string TextOf(const Result<Frame>& frame) {
    return frame ? std::string(AsText(frame.value().bytes())) : frame.failure().message;
  }

  const std::shared_ptr<SharedHeap> worker_heap_ = std::make_shared<SharedHeap>();
  std::vector<size_t> peers_mapped_;  // bytes of the worker's segments that the shard has mapped
  const std::shared_ptr<SharedHeap> shard_heap_ = std::make_shared<SharedHeap>(SharedHeap::Options{
      .peer_mapped = [this](Bytes memory) { peers_mapped_.push_back(memory.size()); },
      .peer_unmapping = [this](Bytes memory) { std::erase(peers_mapped_, memory.size()); }});
  std::unique_ptr<MemoryLink> worker_, shard_;
};

TEST_F(MemoryLinkTest, NothingIsLeasedBeforeTheOtherEndHasSentItsLeaseReturns) {
  EXPECT_FALSE(worker_->ready());
  EXPECT_FALSE(worker_->LeaseOut(0, Shared(worker_heap_, "early")));
  Meet();
  EXPECT_TRUE(worker_->LeaseOut(0, Shared(worker_heap_, "now")));
}

TEST_F(MemoryLinkTest, AFrameIsReadInPlaceAndHeldUntilItComesBack) {
  Meet();
  std::weak_ptr<const Buffer> held;
  const auto lease = worker_->LeaseOut(3, Shared(worker_heap_, "gradient", &held));
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->index, 3u);
  EXPECT_EQ(worker_->leased_bytes(), 8u);
  {
    const auto frame = shard_->OpenLease(*lease);
    EXPECT_EQ(TextOf(frame), "gradient");
    EXPECT_TRUE(frame.value().leased());
    EXPECT_NE(frame.value().data(), held.lock()->data());
    worker_->Collect();
    EXPECT_FALSE(held.expired());
    const_cast<std::byte*>(held.lock()->data())[0] = std::byte{'G'};  // the reader sees what the owner writes
    EXPECT_EQ(TextOf(frame), "Gradient");
    EXPECT_EQ(AsText(frame.value().ToOwned().bytes()), "Gradient");
    EXPECT_FALSE(frame.value().ToOwned().leased());
  }
  EXPECT_FALSE(held.expired());
  worker_->Collect();
  EXPECT_TRUE(held.expired());
  EXPECT_EQ(worker_->leased_bytes(), 0u);
}

TEST_F(MemoryLinkTest, BothEndsLeaseOut) {
  Meet();
  const auto gradient = worker_->LeaseOut(0, Shared(worker_heap_, "gradient"));
  const auto weight = shard_->LeaseOut(0, Shared(shard_heap_, "weight"));
  ASSERT_TRUE(gradient && weight);
  EXPECT_EQ(TextOf(shard_->OpenLease(*gradient)), "gradient");
  EXPECT_EQ(TextOf(worker_->OpenLease(*weight)), "weight");
}

TEST_F(MemoryLinkTest, OtherMemoryIsNotLeased) {
  Meet();
  EXPECT_FALSE(worker_->LeaseOut(0, Frame::Copy(AsBytes("of the process's own heap"))));
  EXPECT_FALSE(worker_->LeaseOut(0, Shared(shard_heap_, "of another heap")));
}

// An array keeps what it adopted when its worker has left.
TEST_F(MemoryLinkTest, AFrameIsReadBeyondTheEndOfItsLink) {
  Meet();
  std::weak_ptr<const Buffer> held;
  Frame frame = worker_->OpenLease(*shard_->LeaseOut(0, Shared(shard_heap_, "weight", &held))).OrThrow();
  worker_ = nullptr;
  shard_->Read();
  shard_->Collect();
  EXPECT_TRUE(shard_->open());
  EXPECT_FALSE(held.expired());
  EXPECT_EQ(AsText(frame.bytes()), "weight");
  frame = Frame();
  shard_->Read();
  EXPECT_FALSE(shard_->open());
  EXPECT_TRUE(held.expired());
}

TEST_F(MemoryLinkTest, WhatAForkLetsGoOfIsNotGivenBack) {
  Meet();
  std::weak_ptr<const Buffer> held;
  Frame frame = worker_->OpenLease(*shard_->LeaseOut(0, Shared(shard_heap_, "weight", &held))).OrThrow();
  const pid_t child = fork();
  if (child == 0) {
    frame = Frame();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  shard_->Collect();
  EXPECT_FALSE(held.expired());
  frame = Frame();
  shard_->Collect();
  EXPECT_TRUE(held.expired());
}

TEST_F(MemoryLinkTest, FramesComeBackInAnyOrderAndFromAnyThread) {
  Meet();
  constexpr size_t kFrames = 500;
  std::vector<std::weak_ptr<const Buffer>> held(kFrames);
  std::vector<Frame> frames;
  for (size_t i = 0; i < kFrames; ++i)
    frames.push_back(
        shard_->OpenLease(*worker_->LeaseOut(0, Shared(worker_heap_, std::to_string(i), &held[i])))
            .OrThrow());
  for (size_t i = 0; i < kFrames; ++i) EXPECT_EQ(AsText(frames[i].bytes()), std::to_string(i));
  std::vector<std::thread> threads;
  for (size_t t = 1; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < kFrames; i += 4) frames[i] = Frame();
    });
  }
  for (std::thread& thread : threads) thread.join();
  worker_->Collect();
  for (size_t i = 0; i < kFrames; ++i) EXPECT_EQ(held[i].expired(), i % 4 != 0) << i;
  frames.clear();
  worker_->Collect();
  for (const auto& frame : held) EXPECT_TRUE(frame.expired());
}

// A message that is lost takes its leases with it: the next one that arrives says so.
TEST_F(MemoryLinkTest, WhatWasLostComesBackWithTheNext) {
  Meet();
  std::weak_ptr<const Buffer> lost, next;
  const auto lost_lease = worker_->LeaseOut(0, Shared(worker_heap_, "lost", &lost));
  const auto next_lease = worker_->LeaseOut(0, Shared(worker_heap_, "next", &next));
  const auto frame = shard_->OpenLease(*next_lease);
  worker_->Collect();
  EXPECT_TRUE(lost.expired());
  EXPECT_FALSE(next.expired());
  EXPECT_THAT(TextOf(shard_->OpenLease(*lost_lease)), HasSubstr("returned already"));
  EXPECT_EQ(TextOf(frame), "next");
}

TEST_F(MemoryLinkTest, TooManyOrTooLargeLeasesAreRefusedUntilSomeComeBack) {
  Meet();
  std::vector<Frame> frames;
  const Frame frame = Shared(worker_heap_, "again");
  for (uint64_t i = 0; i < kMaxLeases; ++i) {
    const auto lease = worker_->LeaseOut(0, frame);
    ASSERT_TRUE(lease) << i;
    frames.push_back(shard_->OpenLease(*lease).OrThrow());
  }
  EXPECT_FALSE(worker_->LeaseOut(0, frame));
  frames.erase(frames.begin() + 1);
  EXPECT_FALSE(worker_->LeaseOut(0, frame));  // in order of their numbers: the first is still out
  frames.erase(frames.begin());
  EXPECT_TRUE(worker_->LeaseOut(0, frame));

  const auto large = std::make_shared<Buffer>(MemoryLink::kMaxLeasedBytes, shard_heap_);
  EXPECT_TRUE(shard_->LeaseOut(0, Frame::Of(large)));
  EXPECT_FALSE(shard_->LeaseOut(0, Shared(shard_heap_, "one more")));
}

TEST_F(MemoryLinkTest, WhatIsNotTheirsIsRefused) {
  Meet();
  const wire::LeasedFrame good = *worker_->LeaseOut(0, Shared(worker_heap_, "good"));
  const auto refusal = [&](auto change, uint64_t lease) {
    wire::LeasedFrame bad = good;
    change(bad);
    bad.lease = lease;
    return TextOf(shard_->OpenLease(bad));
  };
  const uint64_t size = size_t{64} << 20;
  EXPECT_THAT(refusal([](auto& f) { f.segment = 9; }, 1), HasSubstr("segment 9 has not come"));
  EXPECT_THAT(refusal(
                  [&](auto& f) {
                    f.offset = size;
                    f.length = 1;
                  },
                  2),
              HasSubstr("1 bytes at 67108864 of"));
  EXPECT_THAT(refusal(
                  [&](auto& f) {
                    f.offset = UINT64_MAX;
                    f.length = 2;
                  },
                  3),
              HasSubstr("2 bytes at"));
  EXPECT_THAT(refusal([&](auto& f) { f.length = UINT64_MAX; }, 4), HasSubstr("bytes at"));
  EXPECT_THAT(refusal([](auto&) {}, 4), HasSubstr("returned already"));
  EXPECT_EQ(refusal([](auto&) {}, UINT64_MAX - 1), "good");
  EXPECT_TRUE(shard_->open());
}

// The shard has mapped a segment that holds nothing any more.
class SegmentThatIsGone : public MemoryLinkTest {
 protected:
  void Go() {
    Meet();
    ASSERT_TRUE(worker_->LeaseOut(0, Shared(worker_heap_, "of another")));
    auto large = std::make_shared<Buffer>(size_t{65} << 20, worker_heap_);
    Frame frame = shard_->OpenLease(*worker_->LeaseOut(0, Frame::Of(large))).OrThrow();
    place_ = frame.bytes();
    frame = Frame();
    worker_->Collect();
    large = nullptr;
    EXPECT_TRUE(IsMapped());
  }
  bool IsMapped() const {
    unsigned char pages[1];
    const auto page = reinterpret_cast<uintptr_t>(place_.data()) / 4096 * 4096;
    return mincore(reinterpret_cast<void*>(page), 1, pages) == 0;
  }
  Bytes place_;
};

TEST_F(SegmentThatIsGone, IsUnmappedThere) {
  Go();
  EXPECT_THAT(peers_mapped_, SizeIs(2));
  ASSERT_TRUE(worker_->LeaseOut(0, Shared(worker_heap_, "says so")));
  shard_->Read();
  EXPECT_FALSE(IsMapped());
  EXPECT_THAT(peers_mapped_, ElementsAre(64u << 20));
}

TEST_F(SegmentThatIsGone, IsToldAgainWhereTheSocketWasFull) {
  Go();
  const struct {
    uint32_t kind = 4, reserved = 0;
    uint64_t segment = 0;
  } wake;
  int unread = 0;
  while (SendRecord(worker_->fd(), std::as_bytes(std::span(&wake, 1)))) ++unread;
  ASSERT_TRUE(worker_->LeaseOut(0, Shared(worker_heap_, "cannot say so")));
  for (; unread > 0; unread -= 256) shard_->Read();
  shard_->Read();
  EXPECT_TRUE(IsMapped());
  ASSERT_TRUE(worker_->LeaseOut(0, Shared(worker_heap_, "says so")));
  shard_->Read();
  EXPECT_FALSE(IsMapped());
}

// Its socket must not end meanwhile: the owner would write to what is still being read.
TEST_F(MemoryLinkTest, WhoCanMapNoMoreKeepsWhatItHasAndIsLeasedNothingMore) {
  Meet();
  std::weak_ptr<const Buffer> held;
  auto frame = shard_->OpenLease(*worker_->LeaseOut(0, Shared(worker_heap_, "gradient", &held)));
  const auto large = std::make_shared<Buffer>(size_t{65} << 20, worker_heap_);  // a segment of its own
  const auto unmapped = worker_->LeaseOut(0, Frame::Of(large));
  ASSERT_TRUE(unmapped);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto refused = shard_->OpenLease(*unmapped);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.failure().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(shard_->open());
  worker_->Read();
  worker_->Collect();
  EXPECT_TRUE(worker_->open());
  EXPECT_FALSE(worker_->LeaseOut(0, Frame::Of(large)));
  EXPECT_FALSE(held.expired());
  EXPECT_EQ(worker_->leased_bytes(), 8u);
  EXPECT_EQ(TextOf(frame), "gradient");
  frame = Frame();
  worker_->Collect();
  EXPECT_TRUE(held.expired());
}

TEST_F(MemoryLinkTest, WhoHangsUpHoldsNoNewLease) {
  Meet();
  std::weak_ptr<const Buffer> held;
  auto frame = shard_->OpenLease(*worker_->LeaseOut(0, Shared(worker_heap_, "kept", &held)));
  EXPECT_TRUE(shard_->LeaseOut(0, Shared(shard_heap_, "weight")));
  worker_ = nullptr;
  EXPECT_TRUE(held.expired());
  shard_->Read();
  EXPECT_FALSE(shard_->open());
  EXPECT_EQ(shard_->leased_bytes(), 0u);
  EXPECT_FALSE(shard_->LeaseOut(0, Shared(shard_heap_, "more")));
  EXPECT_EQ(TextOf(frame), "kept");  // mapped as long as it is held
}

TEST_F(MemoryLinkTest, WhoSaysWhatNobodySaysIsHungUpOn) {
  Meet();
  const FileDescriptor raw = Duplicate(worker_->fd());
  EXPECT_TRUE(SendRecord(raw.get(), AsBytes("nonsense")));
  shard_->Read();
  EXPECT_FALSE(shard_->open());
}

// A segment that could shrink under its reader.
TEST_F(MemoryLinkTest, WhoAnnouncesUnsealedMemoryIsHungUpOn) {
  Meet();
  const FileDescriptor unsealed(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 4096), 0);
  const struct {
    uint32_t kind = 2, reserved = 0;
    uint64_t segment = 77;
  } announcement;
  const int descriptor = unsealed.get();
  EXPECT_TRUE(
      SendRecord(worker_->fd(), std::as_bytes(std::span(&announcement, 1)), std::span(&descriptor, 1)));
  shard_->Read();
  EXPECT_FALSE(shard_->open());
}

TEST_F(MemoryLinkTest, WhoIsOwedAWordIsWokenOnce) {
  Meet();
  const auto woken = [&] {
    Received received;
    std::byte record[16];
    return ReceiveRecord(worker_->fd(), record, &received) == ReceiveResult::kRecord;
  };
  shard_->WakeIfReturned();
  EXPECT_FALSE(woken());
  auto frame = shard_->OpenLease(*worker_->LeaseOut(0, Shared(worker_heap_, "waited for")));
  shard_->WakeIfReturned();
  EXPECT_FALSE(woken());
  frame = Frame();
  shard_->WakeIfReturned();
  shard_->WakeIfReturned();
  EXPECT_TRUE(woken());
  EXPECT_FALSE(woken());
  frame = shard_->OpenLease(*worker_->LeaseOut(0, Shared(worker_heap_, "again")));
  frame = Frame();
  shard_->MarkNotified();  // a message goes there anyway
  shard_->WakeIfReturned();
  EXPECT_FALSE(woken());
}

}  // namespace
}  // namespace sluice::transport
