// Dropout. A thread draws four words, for four neighbouring columns of the mask.
#include "base/philox.h"
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/map.cuh"

namespace sluice::cuda {
namespace {

// Where the element of a column of the mask lies in its row of x.
template <typename Index>
struct PlaceOfColumn {
  explicit PlaceOfColumn(const DropoutShape& s)
      : channels(static_cast<Index>(s.channels_last)),
        size(static_cast<Index>(s.columns / s.channels_last)) {}
  Index channels, size;
  __device__ int64_t operator()(Index column) const {
    if (channels <= 1) return column;
    return int64_t{column % size} * channels + column / size;
  }
};

template <typename Index>
struct DropoutOp {
  DropoutArgs args;
  PlaceOfColumn<Index> place;
  Index blocks;  // a row has so many blocks of four columns
  __device__ void operator()(int64_t i) const {
    constexpr int kWords = 4;
    const DropoutShape& s = args.shape;
    const Index row = static_cast<Index>(i) / blocks, block = static_cast<Index>(i) % blocks;
    const auto counter = static_cast<uint64_t>(block), sample = s.first_sample + static_cast<uint64_t>(row);
    const PhiloxKey key = {static_cast<uint32_t>(s.key), static_cast<uint32_t>(s.key >> 32)};
    uint32_t words[kWords];
    PhiloxWords<1>(static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                   static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32), key, words);
    const int64_t begin = int64_t{row} * s.columns;
    for (int word = 0; word < kWords; ++word) {
      const int64_t column = int64_t{block} * kWords + word;
      if (column >= s.columns) return;
      const bool kept = words[word] >= s.threshold;
      const int64_t at = begin + place(static_cast<Index>(column));
      args.kept[begin + column] = kept ? 1 : 0;
      args.out[at] = kept ? args.x[at] * s.scale : 0.0f;
    }
  }
};

template <typename Index>
struct DropoutBackwardOp {
  DropoutBackwardArgs args;
  PlaceOfColumn<Index> place;
  __device__ void operator()(int64_t i) const {
    const auto columns = static_cast<Index>(args.shape.columns);
    const Index column = static_cast<Index>(i) % columns;
    const int64_t at = i - column + place(column);
    args.grad_x[at] = args.kept[i] != 0 ? args.grad[at] * args.shape.scale : 0.0f;
  }
};

}  // namespace

void CudaKernels::Dropout(const DropoutArgs& args) {
  const DropoutShape& s = args.shape;
  const int64_t blocks = (s.columns + 3) / 4;
  if (s.rows * s.columns == 0) return;
  WithIndex(4 * s.rows * blocks, [&]<typename Index>(Index) {
    ForEach(stream_, s.rows * blocks,
            DropoutOp<Index>{args, PlaceOfColumn<Index>(s), static_cast<Index>(blocks)});
  });
}

void CudaKernels::DropoutBackward(const DropoutBackwardArgs& args) {
  const DropoutShape& s = args.shape;
  WithIndex(s.rows * s.columns, [&]<typename Index>(Index) {
    ForEach(stream_, s.rows * s.columns, DropoutBackwardOp<Index>{args, PlaceOfColumn<Index>(s)});
  });
}

}  // namespace sluice::cuda
