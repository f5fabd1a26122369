#include "kvstore/update/sum.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "base/simd.h"

namespace sluice::kvstore {
namespace {

// The type that integers are summed in, so that overflow wraps.
template <typename T>
using Sum =
    typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

// The number of sources that one pass adds: their memory streams
// are read in parallel, and the sum stays in a register.
constexpr size_t kTogether = 4;

template <typename T, size_t kSources, bool kOnto>
SLUICE_SIMD void AddTogether(const std::byte* const* sources, size_t n, T* __restrict out) {
  for (size_t i = 0; i < n; ++i) {
    Sum<T> sum = kOnto ? static_cast<Sum<T>>(out[i]) : static_cast<Sum<T>>(LoadAt<T>(sources[0], i));
    for (size_t s = kOnto ? 0 : 1; s < kSources; ++s)
      sum = static_cast<Sum<T>>(sum + static_cast<Sum<T>>(LoadAt<T>(sources[s], i)));
    out[i] = static_cast<T>(sum);
  }
}

template <typename T, bool kOnto>
void AddGroup(const std::byte* const* sources, size_t count, size_t n, T* out) {
  switch (count) {
    case 1:
      return AddTogether<T, 1, kOnto>(sources, n, out);
    case 2:
      return AddTogether<T, 2, kOnto>(sources, n, out);
    case 3:
      return AddTogether<T, 3, kOnto>(sources, n, out);
    default:
      return AddTogether<T, kTogether, kOnto>(sources, n, out);
  }
}

template <typename T>
void SumOf(std::span<const Encoded> sources, size_t first, size_t n, T* out) {
  for (size_t done = 0; done < sources.size();) {
    const size_t count = std::min(kTogether, sources.size() - done);
    const std::byte* group[kTogether];
    for (size_t s = 0; s < count; ++s) group[s] = sources[done + s].data + first * sizeof(T);
    done == 0 ? AddGroup<T, false>(group, count, n, out) : AddGroup<T, true>(group, count, n, out);
    done += count;
  }
}

bool ArePlain(DType dtype, std::span<const Encoded> sources) {
  return dtype == DType::kFloat32 && std::ranges::all_of(sources, [](const Encoded& source) {
           return source.type == Compression::kNone;
         });
}

}  // namespace

void SumBlock(DType dtype, std::span<const Encoded> sources, size_t first, size_t n, float* out) {
  SLUICE_CHECK(dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16);
  if (ArePlain(dtype, sources)) return SumOf(sources, first, n, out);
  compression::Decode(sources[0], dtype, first, n, out);
  for (const Encoded& source : sources.subspan(1)) compression::AddDecoded(source, dtype, first, n, out);
}
void SumBlock(std::span<const Encoded> sources, size_t first, size_t n, double* out) {
  SumOf(sources, first, n, out);
}
void SumBlock(std::span<const Encoded> sources, size_t first, size_t n, int32_t* out) {
  SumOf(sources, first, n, out);
}
void SumBlock(std::span<const Encoded> sources, size_t first, size_t n, int64_t* out) {
  SumOf(sources, first, n, out);
}
void SumBlock(std::span<const Encoded> sources, size_t first, size_t n, uint8_t* out) {
  SumOf(sources, first, n, out);
}

}  // namespace sluice::kvstore
