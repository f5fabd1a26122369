// A loop over the stream's share of the cores.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace sluice {

// body(begin, end) for consecutive pieces of [0, n), at least `grain` long; in this thread alone when there
// is little to do. The cut depends on n, grain and the number of threads only.
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
