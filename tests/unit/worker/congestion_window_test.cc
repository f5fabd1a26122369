#include "worker/connection/congestion_window.h"

#include <gtest/gtest.h>

namespace sluice::worker {
namespace {

constexpr uint64_t kMost = 64 << 20;

// What a link does that carries so many bytes a second: a full window arrives after `idle` and its own time.
void Fill(CongestionWindow* window, double rate, Duration idle, int times) {
  window->OnArrival(1, idle);
  for (int i = 0; i < times; ++i) {
    const double seconds = static_cast<double>(window->bytes()) / rate;
    window->OnArrival(window->bytes(),
                      idle + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
  }
}

TEST(CongestionWindow, OfASlowLinkStaysSmall) {
  CongestionWindow window(CongestionWindow::kLeast, kMost);
  Fill(&window, 60e6, 200us, 100);
  EXPECT_EQ(window.bytes(), CongestionWindow::kLeast);
}

TEST(CongestionWindow, GrowsUntilMessagesQueue) {
  CongestionWindow window(CongestionWindow::kLeast, kMost);
  Fill(&window, 3e9, 100us, 100);
  EXPECT_GT(window.bytes(), 6u << 20);  // 2 ms of the link
  EXPECT_LT(window.bytes(), 16u << 20);
}

TEST(CongestionWindow, ADistantShardGetsTheLinkAllTheSame) {
  CongestionWindow window(CongestionWindow::kLeast, kMost);
  Fill(&window, 125e6, 50ms, 100);
  EXPECT_GT(window.bytes(), 250u << 10);
  EXPECT_LT(window.bytes(), 2u << 20);
  CongestionWindow fast(CongestionWindow::kLeast, kMost);
  Fill(&fast, 1e12, 50ms, 100);
  EXPECT_EQ(fast.bytes(), kMost);
}

TEST(CongestionWindow, ShrinksWhenTheLinkGetsSlower) {
  CongestionWindow window(CongestionWindow::kLeast, kMost);
  Fill(&window, 3e9, 100us, 100);
  Fill(&window, 60e6, 100us, 100);
  EXPECT_EQ(window.bytes(), CongestionWindow::kLeast);
}

TEST(CongestionWindow, FewBytesSayNothingOfMore) {
  CongestionWindow window(CongestionWindow::kLeast, kMost);
  for (int i = 0; i < 1000; ++i) window.OnArrival(1000, 100us);
  EXPECT_EQ(window.bytes(), CongestionWindow::kLeast);
}

TEST(CongestionWindow, StaysWithinWhatMayBeInFlight) {
  CongestionWindow window(CongestionWindow::kLeast, 1000);
  EXPECT_EQ(window.bytes(), 1000u);
  window.OnArrival(1000, 1s);
  EXPECT_EQ(window.bytes(), 1000u);
}

}  // namespace
}  // namespace sluice::worker
