// Which card the calls of a thread are for.
#pragma once

#include <driver_types.h>

#include <new>

namespace sluice::cuda {

// Makes a card the calling thread's current one, and the one before it at the end. Programs may use CUDA
// themselves, on the threads that call the library. Where this process has not opened the card before, which
// is gpu(0) on a thread that has chosen none, that is left alone: to make it current would open it, which
// takes memory of the card.
class CurrentCard {
 public:
  // Throws Error(kUnavailable) if the card refuses.
  explicit CurrentCard(int card);
  // For calls that give something back: a card that refuses has lost what they give.
  CurrentCard(int card, std::nothrow_t) noexcept;
  ~CurrentCard();
  CurrentCard(const CurrentCard&) = delete;
  CurrentCard& operator=(const CurrentCard&) = delete;

 private:
  cudaError_t Set(int card) noexcept;
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace sluice::cuda
