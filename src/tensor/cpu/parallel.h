// A parallel loop on the threads of the context's share.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace sluice {

// The number of elements below which another thread costs more time than it saves.
inline constexpr int64_t kGrain = int64_t{32} << 10;

// Returns the number of pieces of `size` elements that are worth a thread.
inline int64_t PiecesWorthAThread(int64_t size) {
  return kGrain / std::max<int64_t>(1, size) + 1;
}

// Calls body(begin, end) for consecutive pieces of [0, n), each at least `grain` long, and returns
// when all are done; with one piece, the calling thread does it alone. The pieces depend on n, grain
// and the number of threads only. `body` must not throw.
template <typename Body>
void ParallelFor(int64_t n, int64_t grain, Body&& body) {
  const int64_t pieces = std::min<int64_t>(omp_get_max_threads(), n / std::max<int64_t>(grain, 1));
  if (pieces <= 1) {
    body(int64_t{0}, n);
    return;
  }
#pragma omp parallel for num_threads(static_cast <int>(pieces)) schedule(static)
  for (int64_t piece = 0; piece < pieces; ++piece) body(n * piece / pieces, n * (piece + 1) / pieces);
}

}  // namespace sluice
