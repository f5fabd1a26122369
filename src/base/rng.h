// Seeded random numbers that are the same on every machine and compiler (those of std's distributions are
// not). Not thread-safe: an Rng has one owner. Not for secrets: those come from the operating system.
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace sluice {

// One step of SplitMix64 (Steele, Lea, Flood 2014): mixes any 64-bit value. It also
// derives independent seeds.
inline uint64_t MixBits(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}
// Returns the seed of stream `parts` of `seed`, for example (seed, epoch) or (seed, step, sample).
template <typename... Parts>
uint64_t DeriveSeed(uint64_t seed, Parts... parts) {
  seed = MixBits(seed);
  ((seed = MixBits(seed ^ MixBits(static_cast<uint64_t>(parts) + 0x632be59bd9b4e019ULL))), ...);
  return seed;
}

// The generator xoshiro256** (Blackman, Vigna 2018, public domain).
class Rng {
 public:
  explicit Rng(uint64_t seed) {
    for (auto& word : state_) word = seed = MixBits(seed);
  }
  uint64_t Next() {
    const uint64_t result = Rotl(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = Rotl(state_[3], 45);
    return result;
  }
  // Returns a number in [0, n), n > 0, without bias (Lemire 2019).
  uint64_t Below(uint64_t n) {
    while (true) {
      __extension__ const unsigned __int128 m = static_cast<unsigned __int128>(Next()) * n;
      if (static_cast<uint64_t>(m) >= (-n) % n) return static_cast<uint64_t>(m >> 64);
    }
  }
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }  // [0, 1)
  double Uniform(double low, double high) { return low + (high - low) * Uniform(); }
  bool Chance(double probability) { return Uniform() < probability; }
  // Returns a standard normal number (Box-Muller).
  double Normal() {
    const double u = 1.0 - Uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * 3.14159265358979323846 * Uniform());
  }
  // Returns a random permutation of 0..n-1 (Fisher-Yates).
  std::vector<uint64_t> Permutation(uint64_t n) {
    std::vector<uint64_t> order(n);
    std::iota(order.begin(), order.end(), uint64_t{0});
    for (uint64_t i = n; i > 1; --i) std::swap(order[i - 1], order[Below(i)]);
    return order;
  }

 private:
  static uint64_t Rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  uint64_t state_[4];
};

}  // namespace sluice
