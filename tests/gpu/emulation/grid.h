// Runs kernels that are compiled for the host: the blocks of a grid one after another, and the threads of a
// block in turn, each until it waits at a barrier or ends. A thread is a fiber: it has a stack of its own,
// and all fibers of a grid belong to one thread of the host. TSan takes fibers for threads and knows of no
// order between them but that of the barriers, so that it reports a race wherever a barrier is missing.
#pragma once

#include <vector_types.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <source_location>
#include <type_traits>

namespace sluice::emulation {

inline constexpr int kWarpSize = 32;

// Used by one thread of the host.
class GridRunner {
 public:
  GridRunner();
  ~GridRunner();
  // Runs kernel() in every thread of every block. Threads that wait at different barriers, or for one that
  // does not come, end the process with a message that names the places.
  void Run(unsigned blocks, unsigned threads, const std::function<void()>& kernel);

  class Fibers;  // grid.cc

 private:
  const std::unique_ptr<Fibers> fibers_;
};

// --- For kernels: the thread that runs ---

uint3 ThreadIndex();
uint3 BlockIndex();
dim3 BlockSize();
dim3 GridSize();
inline int Lane() {
  return static_cast<int>(ThreadIndex().x) % kWarpSize;
}

void SyncBlock(const std::source_location& where);
void SyncWarp(unsigned mask, const std::source_location& where);

// Where a warp's threads leave values for each other: places for the thread's next exchange. There are two in
// turn, so that a place is written again only when all have read it.
using ExchangePlaces = std::array<std::byte, 8>[kWarpSize];
ExchangePlaces& NextExchangePlaces();

// Returns the value that the warp's thread `lane` brings; its own where there is no such lane.
template <typename T>
T Exchange(unsigned mask, T value, int lane, const std::source_location& where) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  ExchangePlaces& places = NextExchangePlaces();
  std::memcpy(places[Lane()].data(), &value, sizeof(T));
  SyncWarp(mask, where);
  if (lane >= 0 && lane < kWarpSize) std::memcpy(&value, places[lane].data(), sizeof(T));
  return value;
}

}  // namespace sluice::emulation
