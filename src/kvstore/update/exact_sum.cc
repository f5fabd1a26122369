#include "kvstore/update/exact_sum.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "base/simd.h"
#include "kvstore/update/sum.h"

namespace sluice::kvstore {
namespace {

constexpr size_t kBlock = 512;  // elements, whose sums stay in the first-level cache
static_assert(kBlock % compression::kAligned == 0);

constexpr size_t kFloatCuts = 4, kDoubleCuts = 5;

// x + shift - shift is x without what lies below 2^last, rounded to nearest, where |x| < 2^(last + 51).
constexpr double ShiftFor(int last) {
  double shift = 1.5;
  for (int bit = 0; bit < 52 + last; ++bit) shift *= 2;
  for (int bit = 0; bit > 52 + last; --bit) shift /= 2;
  return shift;
}
template <size_t kCuts>
constexpr std::array<double, kCuts> Shifts() {
  constexpr int kFirst = kCuts == kFloatCuts ? 20 : 32, kApart = 38;
  std::array<double, kCuts> shifts{};
  for (size_t cut = 0; cut < kCuts; ++cut) shifts[cut] = ShiftFor(kFirst - kApart * static_cast<int>(cut));
  return shifts;
}

// Several sources in one pass over the sums.
constexpr size_t kTogether = 4;

template <typename T, size_t kCuts, size_t kSources>
SLUICE_SIMD void AddBlock(const std::byte* const* from, size_t n, double* __restrict sums) {
  constexpr std::array<double, kCuts> kShifts = Shifts<kCuts>();
  for (size_t i = 0; i < n; ++i) {
    double added[kCuts] = {};
    for (size_t source = 0; source < kSources; ++source) {
      const double value = LoadAt<T>(from[source], i);
      double above = (value + kShifts[0]) - kShifts[0];
      double rest = value - value == 0 ? value - above : 0;  // of what is not finite nothing
      added[0] += above;
      for (size_t cut = 1; cut < kCuts; ++cut) {
        above = (rest + kShifts[cut]) - kShifts[cut];
        added[cut] += above;
        rest -= above;
      }
    }
    for (size_t cut = 0; cut < kCuts; ++cut) sums[cut * kBlock + i] += added[cut];
  }
}

template <typename T, size_t kCuts>
SLUICE_SIMD void RoundBlock(const double* sums, size_t n, T* __restrict out) {
  for (size_t i = 0; i < n; ++i) {
    double sum = sums[i];
    for (size_t cut = 1; cut < kCuts; ++cut) sum += sums[cut * kBlock + i];
    out[i] = static_cast<T>(sum);
  }
}

size_t BytesOf(DType dtype, size_t elements) {
  if (!IsFloating(dtype)) return elements * SizeOf(dtype);
  const size_t blocks = (elements + kBlock - 1) / kBlock;
  return blocks * kBlock * sizeof(double) * (dtype == DType::kFloat64 ? kDoubleCuts : kFloatCuts);
}

}  // namespace

ExactSum::ExactSum(DType dtype, size_t elements)
    : dtype_(dtype), elements_(elements), sums_(BytesOf(dtype, elements)) {}

// Elements [first, first + n) of a frame: as they came, or decoded.
template <typename T>
const std::byte* ExactSum::Values(const compression::Encoded& source, size_t first, size_t n,
                                  T* decoded) const {
  if constexpr (std::is_same_v<T, float>) {
    if (source.type != Compression::kNone || dtype_ != DType::kFloat32) {
      compression::Decode(source, dtype_, first, n, decoded);
      return reinterpret_cast<const std::byte*>(decoded);
    }
  }
  return source.data + first * sizeof(T);
}

template <typename T, size_t kCuts>
void ExactSum::AddFloating(std::span<const compression::Encoded> sources) {
  alignas(64) T decoded[kTogether][kBlock];
  for (size_t first = 0; first < elements_; first += kBlock) {
    const size_t n = std::min(kBlock, elements_ - first);
    double* const sums = sums_.as<double>() + first * kCuts;
    if (empty_) std::fill_n(sums, kBlock * kCuts, 0.0);
    for (size_t done = 0; done < sources.size();) {
      const size_t count = sources.size() - done < kTogether ? 1 : kTogether;
      const std::byte* values[kTogether];
      for (size_t s = 0; s < count; ++s) values[s] = Values(sources[done + s], first, n, decoded[s]);
      count == 1 ? AddBlock<T, kCuts, 1>(values, n, sums) : AddBlock<T, kCuts, kTogether>(values, n, sums);
      done += count;
    }
  }
}

template <typename T>
void ExactSum::AddWhole(std::span<const compression::Encoded> sources) {
  T added[kBlock];
  for (size_t first = 0; first < elements_; first += kBlock) {
    const size_t n = std::min(kBlock, elements_ - first);
    T* const sums = sums_.as<T>() + first;
    if (empty_) std::fill_n(sums, n, T{});
    SumBlock(sources, first, n, added);
    for (size_t i = 0; i < n; ++i)
      sums[i] = static_cast<T>(static_cast<uint64_t>(sums[i]) + static_cast<uint64_t>(added[i]));
  }
}

void ExactSum::Add(std::span<const compression::Encoded> sources) {
  if (sources.empty()) return;
  switch (dtype_) {
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBFloat16:
      AddFloating<float, kFloatCuts>(sources);
      break;
    case DType::kFloat64:
      AddFloating<double, kDoubleCuts>(sources);
      break;
    case DType::kInt32:
      AddWhole<int32_t>(sources);
      break;
    case DType::kInt64:
      AddWhole<int64_t>(sources);
      break;
    case DType::kUInt8:
      AddWhole<uint8_t>(sources);
      break;
  }
  empty_ = false;
}

// In place: a block's sum takes the room of sums that were read before it.
template <typename T, size_t kCuts>
void ExactSum::Round() {
  T rounded[kBlock];
  for (size_t first = 0; first < elements_; first += kBlock) {
    const size_t n = std::min(kBlock, elements_ - first);
    RoundBlock<T, kCuts>(sums_.as<double>() + first * kCuts, n, rounded);
    std::memcpy(sums_.data() + first * sizeof(T), rounded, n * sizeof(T));
  }
}

const std::byte* ExactSum::Take() {
  if (empty_) {
    std::memset(sums_.data(), 0, sums_.size());
  } else if (dtype_ == DType::kFloat64) {
    Round<double, kDoubleCuts>();
  } else if (IsFloating(dtype_)) {
    Round<float, kFloatCuts>();
  }
  empty_ = true;
  return sums_.data();
}

}  // namespace sluice::kvstore
