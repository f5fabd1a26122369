#include "compression/top_k.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace sluice::compression {
namespace {

// Returns a number that orders as the magnitude does: in its bits the exponent lies above the mantissa.
uint32_t Magnitude(float value) {
  return std::bit_cast<uint32_t>(value) & 0x7fffffffu;
}

uint32_t PlaceAt(const std::byte* places, size_t i) {
  uint32_t place;
  std::memcpy(&place, places + 4 * i, sizeof place);
  return place;
}

constexpr uint32_t kInfinite = 0x7f800000u;  // the magnitude of infinity; those of NaN are larger

struct Cut {
  uint32_t magnitude = 0;  // all elements with a larger magnitude are chosen
  size_t equal = 0;        // the number of elements of this magnitude that are chosen too
};

// Finds the magnitude of the k-th largest element, eleven bits at a time from the top: each pass counts,
// among the elements that agree with it in the bits found so far, how many have each value of the next bits.
Cut FindCut(size_t k, const float* r, size_t n) {
  constexpr int kDigit = 11;
  Cut cut{.magnitude = 0, .equal = k};
  for (int shift = 20; shift > -kDigit; shift -= kDigit) {
    const int low = std::max(shift, 0), bits = shift < 0 ? kDigit + shift : kDigit;
    const uint32_t digits = (1u << bits) - 1;
    std::array<uint32_t, 1u << kDigit> count{};
    for (size_t i = 0; i < n; ++i) {
      const uint32_t magnitude = Magnitude(r[i]);
      if (magnitude >> (low + bits) == cut.magnitude >> (low + bits)) ++count[magnitude >> low & digits];
    }
    uint32_t digit = digits;
    for (; count[digit] < cut.equal; --digit) cut.equal -= count[digit];
    cut.magnitude |= digit << low;
  }
  return cut;
}

}  // namespace

void EncodeTopK(size_t k, float* r, size_t n, std::byte* out) {
  Cut cut = FindCut(k, r, n);
  std::byte* places = out;
  std::byte* values = out + 4 * k;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t magnitude = Magnitude(r[i]);
    if (magnitude < cut.magnitude) continue;
    if (magnitude == cut.magnitude) {
      if (cut.equal == 0) continue;
      --cut.equal;
    }
    const auto place = static_cast<uint32_t>(i);
    std::memcpy(places, &place, sizeof place);
    std::memcpy(values, r + i, sizeof(float));
    places += 4;
    values += 4;
    r[i] = 0;
  }
  if (cut.magnitude < kInfinite) return;
  for (size_t i = 0; i < n; ++i) {  // if kept, these would be sent in many later pushes
    if (Magnitude(r[i]) >= kInfinite) r[i] = 0;
  }
}

void DecodeTopK(const std::byte* from, size_t k, size_t first, size_t n, bool add, float* out) {
  if (!add) std::fill(out, out + n, 0.0f);
  size_t begin = 0, end = k;  // the first place that is not below `first`
  while (begin < end) {
    const size_t middle = (begin + end) / 2;
    PlaceAt(from, middle) < first ? begin = middle + 1 : end = middle;
  }
  for (size_t i = begin; i < k && PlaceAt(from, i) < first + n; ++i) {
    float value;
    std::memcpy(&value, from + 4 * (k + i), sizeof value);
    out[PlaceAt(from, i) - first] += value;
  }
}

bool HasAscendingPlaces(const std::byte* from, size_t k, size_t n) {
  for (size_t i = 0; i < k; ++i) {
    if (PlaceAt(from, i) >= n || (i > 0 && PlaceAt(from, i) <= PlaceAt(from, i - 1))) return false;
  }
  return true;
}

}  // namespace sluice::compression
