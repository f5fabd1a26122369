// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011) computes four random 32-bit words from a counter and a
// key. It has no state, so any element of a stream can be drawn by itself, on any machine.
#pragma once

#include <array>
#include <cstdint>

#include "base/host_device.h"
#include "base/simd.h"

namespace sluice {

struct PhiloxKey {
  uint32_t low = 0, high = 0;
};

inline constexpr int kPhiloxRounds = 10;
inline constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53, kPhiloxMultiplier1 = 0xCD9E8D57;
// Added to the key each round.
inline constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9, kPhiloxWeyl1 = 0xBB67AE85;

// Computes the words of the `Lanes` counters (c0 + lane, c1, c2, c3), in loops that
// vectorise: out[4 lane + word].
template <int Lanes>
SLUICE_HOST_DEVICE SLUICE_INLINE void PhiloxWords(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3,
                                                  PhiloxKey key, uint32_t* out) {
  uint32_t x0[Lanes], x1[Lanes], x2[Lanes], x3[Lanes];
  for (int lane = 0; lane < Lanes; ++lane) {
    x0[lane] = c0 + static_cast<uint32_t>(lane);
    x1[lane] = c1;
    x2[lane] = c2;
    x3[lane] = c3;
  }
  for (int round = 0; round < kPhiloxRounds; ++round) {
    for (int lane = 0; lane < Lanes; ++lane) {
      const uint64_t a = uint64_t{kPhiloxMultiplier0} * x0[lane], b = uint64_t{kPhiloxMultiplier1} * x2[lane];
      x0[lane] = static_cast<uint32_t>(b >> 32) ^ x1[lane] ^ key.low;
      x1[lane] = static_cast<uint32_t>(b);
      x2[lane] = static_cast<uint32_t>(a >> 32) ^ x3[lane] ^ key.high;
      x3[lane] = static_cast<uint32_t>(a);
    }
    key.low += kPhiloxWeyl0;
    key.high += kPhiloxWeyl1;
  }
  for (int lane = 0; lane < Lanes; ++lane, out += 4) {
    out[0] = x0[lane];
    out[1] = x1[lane];
    out[2] = x2[lane];
    out[3] = x3[lane];
  }
}

inline std::array<uint32_t, 4> Philox(const std::array<uint32_t, 4>& counter, PhiloxKey key) {
  std::array<uint32_t, 4> words;
  PhiloxWords<1>(counter[0], counter[1], counter[2], counter[3], key, words.data());
  return words;
}

}  // namespace sluice
