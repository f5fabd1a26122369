// ExactSum goes over its elements block by block, so that the sums of a block stay in the caches while all
// sources of a call are added to it; binary_expansion.cc does the arithmetic of a block. For integers the
// sums are plain, wrapping sums. It owns the sums. Invariants: a place of a block is read only while its bit
// in in_use_ is set; Take leaves no bit set, and its result overwrites only sums that have been read. Round
// (server/keys) calls it on the shard's thread.
#include "kvstore/update/exact_sum.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kvstore/update/binary_expansion.h"
#include "kvstore/update/sum.h"

namespace sluice::kvstore {
namespace {

constexpr size_t kBlock = kExpandedBlock;
static_assert(kBlock % compression::kAligned == 0);

size_t Blocks(size_t elements) {
  return (elements + kBlock - 1) / kBlock;
}
size_t BytesOf(DType dtype, size_t elements) {
  if (!IsFloating(dtype)) return elements * SizeOf(dtype);
  const size_t places = dtype == DType::kFloat64 ? kPlaces<double> : kPlaces<float>;
  return Blocks(elements) * kBlock * sizeof(double) * places;
}

}  // namespace

ExactSum::ExactSum(DType dtype, size_t elements, std::shared_ptr<Allocator> memory)
    : dtype_(dtype),
      elements_(elements),
      sums_(BytesOf(dtype, elements), std::move(memory)),
      in_use_(IsFloating(dtype) ? Blocks(elements) : 0) {}

// Elements [first, first + n) of a frame: in place, or decoded into `decoded`.
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

// The rounded sums of a block overwrite sums of blocks that have been read before.
template <typename T>
void ExactSum::AddFloating(std::span<const compression::Encoded> sources, bool last) {
  constexpr size_t kMostDecoded = std::is_same_v<T, float> ? kAddedTogether : 1;
  alignas(64) T values[kMostDecoded][kBlock];
  for (size_t block = 0; block < in_use_.size(); ++block) {
    const size_t first = block * kBlock, n = std::min(kBlock, elements_ - first);
    double* const rows = sums_.as<double>() + first * kPlaces<T>;
    for (auto left = sources; !left.empty();) {
      const auto now = left.first(std::min(left.size(), kAddedTogether));
      std::array<const std::byte*, kAddedTogether> from;
      for (size_t s = 0; s < now.size(); ++s) from[s] = Values(now[s], first, n, values[s % kMostDecoded]);
      AddToBlock<T>(std::span(from).first(now.size()), n, rows, &in_use_[block]);
      left = left.subspan(now.size());
    }
    if (!last) continue;
    RoundBlock(n, rows, std::exchange(in_use_[block], uint8_t{0}), values[0]);
    std::memcpy(sums_.data() + first * sizeof(T), values[0], n * sizeof(T));
  }
}

template <typename T>
void ExactSum::AddWhole(std::span<const compression::Encoded> sources) {
  T added[kBlock];
  for (size_t first = 0; first < elements_; first += kBlock) {
    const size_t n = std::min(kBlock, elements_ - first);
    T* const sums = sums_.as<T>() + first;
    if (empty_) std::fill_n(sums, n, T{});
    if (sources.empty()) continue;
    SumBlock(sources, first, n, added);
    for (size_t i = 0; i < n; ++i)
      sums[i] = static_cast<T>(static_cast<uint64_t>(sums[i]) + static_cast<uint64_t>(added[i]));
  }
}

void ExactSum::Pass(std::span<const compression::Encoded> sources, bool last) {
  switch (dtype_) {
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBFloat16:
      AddFloating<float>(sources, last);
      break;
    case DType::kFloat64:
      AddFloating<double>(sources, last);
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
  empty_ = last;
}

void ExactSum::Add(std::span<const compression::Encoded> sources) {
  if (!sources.empty()) Pass(sources, /*last=*/false);
}

const std::byte* ExactSum::Take(std::span<const compression::Encoded> sources) {
  Pass(sources, /*last=*/true);
  return sums_.data();
}

}  // namespace sluice::kvstore
