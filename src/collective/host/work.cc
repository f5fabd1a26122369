// Sums and copies arrays in host memory for the reducers. The Enqueue functions return at once: they pass a
// HostWork the work with the events that it waits for, and record it as reader of the values and writer of
// the result. The sums run later, on HostWork's thread and for large arrays on helpers; every element is
// summed in the order of the values, so results do not depend on the number of threads.
#include "collective/host/work.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "base/simd.h"
#include "tensor/access.h"
#include "tensor/types/half.h"

namespace sluice::collective {
namespace {

template <typename T>
inline void AddLoop(const T* from, T* to, size_t n) {
  for (size_t i = 0; i < n; ++i) to[i] = static_cast<T>(to[i] + from[i]);
}
SLUICE_SIMD void Add(const float* from, float* to, size_t n) {
  AddLoop(from, to, n);
}
SLUICE_SIMD void Add(const double* from, double* to, size_t n) {
  AddLoop(from, to, n);
}
// Integers are added as unsigned numbers, so that they wrap.
SLUICE_SIMD void Add(const uint32_t* from, uint32_t* to, size_t n) {
  AddLoop(from, to, n);
}
SLUICE_SIMD void Add(const uint64_t* from, uint64_t* to, size_t n) {
  AddLoop(from, to, n);
}
SLUICE_SIMD void Add(const uint8_t* from, uint8_t* to, size_t n) {
  AddLoop(from, to, n);
}

SLUICE_SIMD void Multiply(float by, float* values, size_t n) {
  for (size_t i = 0; i < n; ++i) values[i] *= by;
}

using Sources = std::span<const Frame>;

template <typename T>
void SumRange(Sources sources, std::byte* out, size_t first, size_t n) {
  T* to = reinterpret_cast<T*>(out) + first;
  std::memcpy(to, reinterpret_cast<const T*>(sources[0].data()) + first, n * sizeof(T));
  for (size_t s = 1; s < sources.size(); ++s)
    Add(reinterpret_cast<const T*>(sources[s].data()) + first, to, n);
}

void SumHalves(DType dtype, Sources sources, float times, std::byte* out, size_t first, size_t n) {
  const auto widen = dtype == DType::kFloat16 ? HalfToFloat : BFloat16ToFloat;
  const auto narrow = dtype == DType::kFloat16 ? FloatToHalf : FloatToBFloat16;
  constexpr size_t kBlock = 1024;
  float sum[kBlock], term[kBlock];
  for (size_t at = first; at < first + n; at += kBlock) {
    const size_t count = std::min(kBlock, first + n - at);
    widen(sources[0].data() + 2 * at, sum, count);
    for (size_t s = 1; s < sources.size(); ++s) {
      widen(sources[s].data() + 2 * at, term, count);
      Add(term, sum, count);
    }
    if (times != 1) Multiply(times, sum, count);
    narrow(sum, out + 2 * at, count);
  }
}

// Sums elements [first, first + n). `times` multiplies sums of 16-bit floats alone.
void SumInto(DType dtype, Sources sources, float times, std::byte* out, size_t first, size_t n) {
  switch (dtype) {
    case DType::kFloat32:
      return SumRange<float>(sources, out, first, n);
    case DType::kFloat64:
      return SumRange<double>(sources, out, first, n);
    case DType::kFloat16:
    case DType::kBFloat16:
      return SumHalves(dtype, sources, times, out, first, n);
    case DType::kInt32:
      return SumRange<uint32_t>(sources, out, first, n);
    case DType::kInt64:
      return SumRange<uint64_t>(sources, out, first, n);
    case DType::kUInt8:
      return SumRange<uint8_t>(sources, out, first, n);
  }
}

void SumWithThreads(DType dtype, Sources sources, float times, std::byte* out, size_t n, int threads) {
  constexpr size_t kWorthAThread = 1 << 20;  // elements
  const size_t pieces = std::clamp<size_t>(n / kWorthAThread, 1, static_cast<size_t>(std::max(threads, 1)));
  std::vector<std::thread> helpers;
  if (pieces > 1) helpers.reserve(pieces - 1);
  size_t begin = n / pieces;
  for (size_t piece = 1; piece < pieces; ++piece) {
    const size_t end = n * (piece + 1) / pieces;
    try {
      helpers.emplace_back([&, begin, end] { SumInto(dtype, sources, times, out, begin, end - begin); });
    } catch (const std::system_error&) {  // the system gives no more threads: this one sums the rest
      break;
    }
    begin = end;
  }
  SumInto(dtype, sources, times, out, 0, n / pieces);
  if (helpers.size() + 1 < pieces) SumInto(dtype, sources, times, out, begin, n - begin);
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace

void EnqueueSum(const HostWork& host_work, std::span<const NDArray> values, NDArray* out, int threads,
                uint32_t exponent) {
  Events after = PendingUses(*out);
  InlineVector<Frame, 8> sources;
  for (const NDArray& value : values) {
    after.push_back(ReadyToRead(value));
    sources.push_back(HostFrame(value));
  }
  const Frame target = HostFrame(*out);
  const Event done = host_work(
      out->context(), "sum of gradients", after,
      [dtype = out->dtype(), sources = std::move(sources), target, to = MutableHostBytes(*out).data(),
       n = static_cast<size_t>(out->size()), threads, times = std::ldexp(1.0f, -static_cast<int>(exponent))] {
        SumWithThreads(dtype, sources, times, to, n, threads);
      });
  for (const NDArray& value : values) AddReader(value, done);
  SetWriter(*out, done);
}

bool IsAlikeOnHost(const NDArray& value, const NDArray& out) {
  return value.context().kind != DeviceKind::kGpu && out.context().kind != DeviceKind::kGpu &&
         value.shape() == out.shape() && value.dtype() == out.dtype();
}

void EnqueueCopy(const HostWork& host_work, const NDArray& value, NDArray* out) {
  const Context where = value.context().kind == DeviceKind::kCpuPinned ? value.context() : out->context();
  Events after = PendingUses(*out);
  after.push_back(ReadyToRead(value));
  const Event done = host_work(
      where, "copy", after, [from = HostFrame(value), target = HostFrame(*out), to = MutableHostBytes(*out)] {
        if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
      });
  AddReader(value, done);
  SetWriter(*out, done);
}

}  // namespace sluice::collective
