// Tests transport/shm/contiguous_view.h: pieces of several segments appear one behind the other without a
// copy, for as long as somebody reads them.
#include "transport/shm/contiguous_view.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>

#include "transport/shm/segment.h"
#include "transport/sim/sim_lease.h"

namespace sluice::transport {
namespace {

constexpr size_t kViewPage = 4096, kPages = 64;

// The owner's memory, page i full of the byte i, as a lease holder has it mapped.
class ContiguousViewTest : public ::testing::Test {
 protected:
  ContiguousViewTest() {
    for (size_t page = 0; page < kPages; ++page)
      std::memset(segment_->data() + page * kViewPage, static_cast<int>(page), kViewPage);
    const FileDescriptor fd(fcntl(segment_->fd(), F_DUPFD_CLOEXEC, 0));
    mapping_ = ShmMapping::Of(fd, kPages * kViewPage).OrThrow();
  }
  struct Mapped final : Lease {
    using Lease::Lease;
    std::shared_ptr<int> out;  // held while it is
  };
  Frame At(size_t page, size_t bytes, size_t beyond = 0) {
    auto lease = std::make_shared<Mapped>(mapping_);
    lease->out = out_;
    return Frame::Leased(mapping_->bytes().subspan(page * kViewPage + beyond, bytes), std::move(lease));
  }
  static std::vector<int> FirstBytesOfPages(const Frame& frame) {
    std::vector<int> bytes;
    for (size_t i = 0; i < frame.size(); i += kViewPage) bytes.push_back(static_cast<int>(frame.data()[i]));
    return bytes;
  }
  std::optional<Frame> Join(const std::vector<Frame>& pieces) { return views_.Join(pieces); }
  long leased() const { return out_.use_count() - 1; }

  const std::shared_ptr<ShmSegment> segment_ = ShmSegment::Make(kPages * kViewPage).OrThrow();
  std::shared_ptr<const ShmMapping> mapping_;
  const std::shared_ptr<int> out_ = std::make_shared<int>();
  ContiguousView views_{HeapAllocator()};
};

TEST_F(ContiguousViewTest, PiecesFollowEachOther) {
  const auto joined = Join({At(9, 2 * kViewPage), At(3, kViewPage), At(40, kViewPage + 5)});
  ASSERT_TRUE(joined);
  EXPECT_TRUE(joined->leased());
  EXPECT_EQ(joined->size(), 4 * kViewPage + 5);
  EXPECT_EQ(FirstBytesOfPages(*joined), (std::vector<int>{9, 10, 3, 40, 41}));
}

TEST_F(ContiguousViewTest, NothingIsCopied) {
  const auto joined = Join({At(9, kViewPage), At(3, kViewPage)});
  segment_->data()[3 * kViewPage] = std::byte{200};
  EXPECT_EQ(FirstBytesOfPages(*joined), (std::vector<int>{9, 200}));
}

TEST_F(ContiguousViewTest, ThePiecesAreOutUntilTheLastFrameGoes) {
  auto joined = Join({At(1, kViewPage), At(5, kViewPage)});
  auto part = std::optional(joined->Slice(kViewPage, 7));
  joined.reset();
  EXPECT_EQ(leased(), 2);
  EXPECT_EQ(static_cast<int>(part->data()[0]), 5);
  part.reset();
  EXPECT_EQ(leased(), 0);
}

TEST_F(ContiguousViewTest, TheSamePiecesLieWhereTheyLay) {
  const std::byte* first = Join({At(1, kViewPage), At(5, kViewPage)})->data();
  const auto other = Join({At(5, kViewPage), At(1, kViewPage)});
  EXPECT_NE(other->data(), first);
  EXPECT_EQ(FirstBytesOfPages(*other), (std::vector<int>{5, 1}));
  EXPECT_EQ(Join({At(1, kViewPage), At(5, kViewPage)})->data(), first);
  EXPECT_NE(Join({At(1, kViewPage), At(5, kViewPage - 8)})->data(), first) << "a shorter piece is another";
}

TEST_F(ContiguousViewTest, OnePieceStaysItself) {
  const Frame piece = At(7, 100, 12);
  EXPECT_EQ(Join({piece})->data(), piece.data());
}

TEST_F(ContiguousViewTest, WhatIsNoPagesIsNotJoined) {
  EXPECT_FALSE(Join({At(1, kViewPage, 64), At(5, kViewPage)})) << "it begins within a page";
  EXPECT_FALSE(Join({At(1, kViewPage - 64), At(5, kViewPage)})) << "it ends within a page";
  EXPECT_FALSE(Join({At(1, kViewPage), Frame::Copy(At(5, kViewPage).bytes())})) << "it is not leased";
  const auto heap = std::make_shared<Buffer>(2 * kViewPage);
  EXPECT_FALSE(Join({At(1, kViewPage), SimLeased(heap->bytes(), heap)})) << "it is of no mapping";
  EXPECT_TRUE(Join({At(1, kViewPage), At(5, 3)}));
  EXPECT_EQ(leased(), 0);
}

TEST_F(ContiguousViewTest, AViewOutlivesTheMapping) {
  auto joined = Join({At(1, kViewPage), At(5, kViewPage)});
  mapping_ = nullptr;
  EXPECT_EQ(FirstBytesOfPages(*joined), (std::vector<int>{1, 5}));
}

// A view takes the kernel longer than a copy.
TEST_F(ContiguousViewTest, PiecesFromEverywhereAreNoLongerJoined) {
  const auto pair = [&](size_t i) { return Join({At(i, kViewPage), At(kPages - 1 - i, kViewPage)}); };
  size_t joined = 0;
  while (joined < 30 && pair(joined)) ++joined;
  EXPECT_GT(joined, 3u);
  EXPECT_LT(joined, 30u);
  EXPECT_FALSE(pair(0));
}

TEST_F(ContiguousViewTest, PlacesInTurnsAreJoinedForEver) {
  for (size_t i = 0; i < 200; ++i) {
    const auto joined = Join({At(i % 3, kViewPage), At(10 + i % 3, kViewPage)});
    ASSERT_TRUE(joined) << i;
    EXPECT_EQ(FirstBytesOfPages(*joined),
              (std::vector<int>{static_cast<int>(i % 3), 10 + static_cast<int>(i % 3)}));
  }
}

}  // namespace
}  // namespace sluice::transport
