// Sums and copies arrays in host memory for the reducers. The Enqueue functions return at once: they pass a
// HostWork the work with the events that it waits for, and record it as reader of the values and writer of
// the result. The sums run later, on HostWork's thread and for large arrays on helpers; every element is
// summed in the order of the values, so results do not depend on the number of threads.
#include "collective/host/work.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "tensor/access.h"
#include "tensor/types/add_up.h"

namespace sluice::collective {
namespace {

using Sources = std::span<const std::byte* const>;

void SumWithThreads(DType dtype, Sources sources, uint32_t exponent, std::byte* out, size_t n, int threads) {
  constexpr size_t kWorthAThread = 1 << 20;  // elements
  const size_t pieces = std::clamp<size_t>(n / kWorthAThread, 1, static_cast<size_t>(std::max(threads, 1)));
  std::vector<std::thread> helpers;
  if (pieces > 1) helpers.reserve(pieces - 1);
  size_t begin = n / pieces;
  for (size_t piece = 1; piece < pieces; ++piece) {
    const size_t end = n * (piece + 1) / pieces;
    try {
      helpers.emplace_back([&, begin, end] { AddUp(dtype, sources, exponent, out, begin, end - begin); });
    } catch (const std::system_error&) {  // the system gives no more threads: this one sums the rest
      break;
    }
    begin = end;
  }
  AddUp(dtype, sources, exponent, out, 0, n / pieces);
  if (helpers.size() + 1 < pieces) AddUp(dtype, sources, exponent, out, begin, n - begin);
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace

void EnqueueSum(const HostWork& host_work, std::span<const NDArray> values, NDArray* out, int threads,
                uint32_t exponent) {
  Events after = PendingUses(*out);
  InlineVector<NDArray, 8> on_host;
  InlineVector<Frame, 8> sources;
  for (const NDArray& value : values) {
    on_host.push_back(OnHost(value) ? value : value.AsInContext(out->context()));
    after.push_back(ReadyToRead(on_host.back()));
    sources.push_back(HostFrame(on_host.back()));
  }
  const Frame target = HostFrame(*out);
  const Event done = host_work(
      out->context(), "sum of gradients", after,
      [dtype = out->dtype(), sources = std::move(sources), target, to = MutableHostBytes(*out).data(),
       n = static_cast<size_t>(out->size()), threads, exponent] {
        InlineVector<const std::byte*, 8> arrays;
        for (const Frame& source : sources) arrays.push_back(source.data());
        SumWithThreads(dtype, {arrays.data(), arrays.size()}, exponent, to, n, threads);
      });
  for (const NDArray& value : on_host) AddReader(value, done);
  SetWriter(*out, done);
}

bool IsAlikeOnHost(const NDArray& value, const NDArray& out) {
  return OnHost(value) && OnHost(out) && value.shape() == out.shape() && value.dtype() == out.dtype();
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
