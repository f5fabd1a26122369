// The arithmetic of ExactSum on one block: cutting addends into digits, and rounding the sums of digits.
//
// A float64 takes part in a cut by adding and subtracting a large constant (ShiftFor), so the
// code relies on round-to-nearest and must not be compiled with reassociation (-ffast-math).
// Most blocks of gradients hold magnitudes that float64 sums exactly (Magnitudes): these are
// summed first and cut once. All functions are pure; ExactSum calls them on its caller's thread.
#include "kvstore/update/binary_expansion.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/simd.h"
#include "kvstore/update/sum.h"

namespace sluice::kvstore {
namespace {

constexpr size_t kBlock = kExpandedBlock;

constexpr double PowerOf2(int exponent) {
  double power = 1;
  for (; exponent > 0; --exponent) power *= 2;
  for (; exponent < 0; ++exponent) power /= 2;
  return power;
}

// The unit of each place: its digits, and sums of them, are multiples of it.
template <typename T>
constexpr std::array<double, kPlaces<T>> Units() {
  constexpr int kFirst = std::is_same_v<T, double> ? 32 : 20, kApart = 38;
  std::array<double, kPlaces<T>> units{};
  for (size_t place = 0; place < kPlaces<T>; ++place)
    units[place] = PowerOf2(kFirst - kApart * static_cast<int>(place));
  return units;
}

// x + shift - shift is x rounded to the nearest multiple of the unit, where |x| < 2^51 units.
constexpr double ShiftFor(double unit) {
  return 1.5 * PowerOf2(52) * unit;
}

// The range of places in which a set of numbers has digits.
struct PlaceRange {
  size_t first, last;
  bool operator==(const PlaceRange&) const = default;
};
// kUsual is the range of most gradients: of numbers from 2^-33 (1e-10), with all
// their bits, to 2^19. kSmall is the range of these and all smaller numbers.
constexpr PlaceRange kUsual{1, 2}, kSmall{1, 3};
template <typename T>
constexpr PlaceRange kAll{0, kPlaces<T> - 1};

// The bits of the largest magnitude, and those of the smallest that is not 0, minus 1 (so
// that 0 wraps to the maximum). The bits of floats have the order of their magnitudes.
struct Magnitudes {
  uint32_t most = 0, least = UINT32_MAX;

  PlaceRange places() const {
    constexpr auto kBelowFirst = std::bit_cast<uint32_t>(0x1p19f);
    constexpr auto kWholeInThird = std::bit_cast<uint32_t>(0x1p-33f);
    if (most >= kBelowFirst) return kAll<float>;
    return least >= kWholeInThird - 1 ? kUsual : kSmall;
  }
  // True when float64 sums kAddedTogether of these numbers exactly: they are usual,
  // all are multiples of some 2^e, and together they are less than 2^(e + 53).
  bool AddUpExactly() const {
    constexpr uint32_t kExponentAt = 23, kBits = 24, kBitsOfCount = std::countr_zero(kAddedTogether);
    if (most == 0) return true;
    return places() == kUsual &&
           (most >> kExponentAt) - ((least + 1) >> kExponentAt) <= 53 - kBits - kBitsOfCount;
  }
};

// Adds the sources to `sums` in float64, or sets `sums`
// when not `begun`, and records their magnitudes in `seen`.
template <size_t kSources>
SLUICE_SIMD void Look(const std::byte* const* from, size_t n, bool begun, double* __restrict sums,
                      Magnitudes* seen) {
  uint32_t most = seen->most, least = seen->least;
  for (size_t i = 0; i < n; ++i) {
    double sum = begun ? sums[i] : 0;
    for (size_t source = 0; source < kSources; ++source) {
      const auto value = LoadAt<float>(from[source], i);
      const uint32_t magnitude = std::bit_cast<uint32_t>(value) & 0x7fff'ffff;
      most = std::max(most, magnitude);
      least = std::min(least, magnitude - 1);
      sum += static_cast<double>(value);
    }
    sums[i] = sum;
  }
  *seen = {most, least};
}

// Cuts numbers of type `Source` at the places kAt of `T`, and adds the digits to `rows`.
template <typename T, PlaceRange kAt, typename Source, size_t kSources>
SLUICE_SIMD void Cut(const std::byte* const* from, size_t n, double* __restrict rows) {
  constexpr auto kUnits = Units<T>();
  constexpr bool kWhole = kAt.last + 1 < kPlaces<T>;  // no number has digits below the last place
  for (size_t i = 0; i < n; ++i) {
    double added[kPlaces<T>] = {};
    for (size_t source = 0; source < kSources; ++source) {
      double rest = LoadAt<Source>(from[source], i);
      for (size_t place = kAt.first; place <= kAt.last; ++place) {
        const double shift = ShiftFor(kUnits[place]);
        const double above = kWhole && place == kAt.last ? rest : (rest + shift) - shift;
        added[place] += above;
        // A number that is not finite goes to the first place whole.
        rest = place == 0 && rest - rest != 0 ? 0 : rest - above;
      }
    }
    for (size_t place = kAt.first; place <= kAt.last; ++place) rows[place * kBlock + i] += added[place];
  }
}

// Sets the rows of `places` that are not in use yet to 0, and marks them as in use.
void Begin(PlaceRange places, double* rows, uint8_t* in_use) {
  for (size_t place = places.first; place <= places.last; ++place) {
    if ((*in_use >> place & 1) == 0) std::fill_n(rows + place * kBlock, kBlock, 0.0);
    *in_use |= static_cast<uint8_t>(1 << place);
  }
}

// The number of sources that one pass reads side by side, as parallel memory streams.
constexpr size_t kStreams = 4;

template <typename Of4, typename Of1>
void InStreams(std::span<const std::byte* const> sources, Of4 of4, Of1 of1) {
  for (; sources.size() >= kStreams; sources = sources.subspan(kStreams)) of4(sources.data());
  for (const std::byte* const& source : sources) of1(&source);
}

Magnitudes AddUp(std::span<const std::byte* const> sources, size_t n, double* sums) {
  Magnitudes seen;
  bool begun = false;
  InStreams(
      sources,
      [&](const std::byte* const* from) { Look<kStreams>(from, n, std::exchange(begun, true), sums, &seen); },
      [&](const std::byte* const* from) { Look<1>(from, n, std::exchange(begun, true), sums, &seen); });
  return seen;
}

template <typename T, PlaceRange kAt>
void CutAll(std::span<const std::byte* const> sources, size_t n, double* rows) {
  InStreams(
      sources, [&](const std::byte* const* from) { Cut<T, kAt, T, kStreams>(from, n, rows); },
      [&](const std::byte* const* from) { Cut<T, kAt, T, 1>(from, n, rows); });
}

// Carries what exceeds each row's own digit to the place above. Then the
// rows depend on the sum alone, not on the addends that it was made of.
SLUICE_SIMD void Carry(size_t n, double* __restrict rows) {
  constexpr auto kUnits = Units<float>();
  for (size_t place = kPlaces<float> - 1; place > 0; --place) {
    const double unit = kUnits[place - 1], shift = ShiftFor(unit);
    for (size_t i = 0; i < n; ++i) {
      const double sum = rows[place * kBlock + i];
      const double nearest = (sum + shift) - shift;
      const double above = nearest > sum ? nearest - unit : nearest;
      rows[place * kBlock + i] = sum - above;
      rows[(place - 1) * kBlock + i] += above;
    }
  }
}

template <typename T, PlaceRange kAt>
SLUICE_SIMD void RoundRows(size_t n, const double* rows, T* __restrict out) {
  for (size_t i = 0; i < n; ++i) {
    double sum = rows[kAt.first * kBlock + i];
    for (size_t place = kAt.first + 1; place <= kAt.last; ++place) sum += rows[place * kBlock + i];
    out[i] = static_cast<T>(sum);
  }
}

}  // namespace

template <>
void AddToBlock<double>(std::span<const std::byte* const> sources, size_t n, double* rows, uint8_t* in_use) {
  Begin(kAll<double>, rows, in_use);
  CutAll<double, kAll<double>>(sources, n, rows);
}

template <>
void AddToBlock<float>(std::span<const std::byte* const> sources, size_t n, double* rows, uint8_t* in_use) {
  alignas(64) double sums[kBlock];
  const auto* const summed = reinterpret_cast<const std::byte*>(sums);
  if (AddUp(sources, n, sums).AddUpExactly()) {
    Begin(kUsual, rows, in_use);
    return Cut<float, kUsual, double, 1>(&summed, n, rows);
  }
  // Few numbers are much smaller or larger than the rest, so the block is divided into pieces of
  // kFew elements, and sources are cut one by one only in the pieces that contain such numbers.
  constexpr size_t kFew = 128;
  std::array<const std::byte*, kAddedTogether> from;
  for (size_t first = 0; first < n; first += kFew) {
    const size_t few = std::min(kFew, n - first);
    for (size_t s = 0; s < sources.size(); ++s) from[s] = sources[s] + first * sizeof(float);
    const auto of_few = std::span(from).first(sources.size());
    const Magnitudes seen = AddUp(of_few, few, sums);
    const PlaceRange places = seen.places();
    Begin(places, rows, in_use);
    if (seen.AddUpExactly()) {
      Cut<float, kUsual, double, 1>(&summed, few, rows + first);
    } else if (places == kUsual) {
      CutAll<float, kUsual>(of_few, few, rows + first);
    } else if (places == kSmall) {
      CutAll<float, kSmall>(of_few, few, rows + first);
    } else {
      CutAll<float, kAll<float>>(of_few, few, rows + first);
    }
  }
}

template <>
void RoundBlock<double>(size_t n, double* rows, uint8_t in_use, double* out) {
  Begin(kAll<double>, rows, &in_use);
  RoundRows<double, kAll<double>>(n, rows, out);
}

template <>
void RoundBlock<float>(size_t n, double* rows, uint8_t in_use, float* out) {
  constexpr uint8_t kUsualInUse = 1 << kUsual.first | 1 << kUsual.last;
  if (in_use == kUsualInUse) return RoundRows<float, kUsual>(n, rows, out);  // the sum is rounded once
  Begin(kAll<float>, rows, &in_use);
  Carry(n, rows);
  RoundRows<float, kAll<float>>(n, rows, out);
}

}  // namespace sluice::kvstore
