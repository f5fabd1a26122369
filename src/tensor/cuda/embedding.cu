// Embeddings: rows of a weight by their numbers, their means over bags, and the gradients of both. It owns
// nothing: numbers, keys and shares lie in the workspace of the stream. autograd/ops/embedding.cc calls it,
// in work on the stream.
//
// Invariants: one kernel reads and checks an embedding's ids, as numbers of rows; the others take a number of
// -1, which stands for an id that is no row, as padding. A gradient is a sum over the places of each id: the
// keys (id, place) are sorted, and the threads of one block add up each run of one id, in an order that
// depends on the number of places and columns alone.
#include <bit>

#include "tensor/cuda/input_check.cuh"
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/map.cuh"
#include "tensor/cuda/rows.cuh"
#include "tensor/cuda/sort.h"
#include "tensor/with_numbers.h"

namespace sluice::cuda {
namespace {

constexpr uint64_t kNoKey = ~uint64_t{0};

template <typename Id>
struct ReadIdOp {
  const Id* ids;
  int64_t rows;
  InputCheck check;
  __device__ int64_t operator()(int64_t place) const {
    return ReadWhole(check, BadInputKind::kId, ids, place, rows, rows);
  }
};

void ReadIds(cudaStream_t stream, const EmbeddingShape& s, const void* ids, int64_t n, int64_t* numbers,
             const InputCheck& check) {
  WithNumbers(s.id_type, ids, [&]<typename Id>(const Id* typed) {
    Map(stream, n, numbers, ReadIdOp<Id>{typed, s.rows, check});
  });
}

struct TakeRow {
  EmbeddingArgs args;
  const int64_t* numbers;
  template <typename Group>
  __device__ void operator()(Group, int64_t i) const {
    const int64_t columns = args.shape.columns, id = numbers[i];
    const bool none = id < 0 || id == args.shape.padding;
    for (int64_t j = Group::Place(); j < columns; j += Group::kSize)
      args.out[i * columns + j] = none ? 0.0f : args.weight[id * columns + j];
  }
};

// Returns how many of a bag's ids are neither padding nor -1.
__device__ int64_t CountOf(const int64_t* numbers, int64_t steps, int64_t padding) {
  int64_t count = 0;
  for (int64_t step = 0; step < steps; ++step)
    count += numbers[step] >= 0 && numbers[step] != padding ? 1 : 0;
  return count;
}

struct MeanOfBag {
  EmbeddingBagArgs args;
  const int64_t* numbers;
  template <typename Group>
  __device__ void operator()(Group, int64_t bag) const {
    const int64_t columns = args.shape.columns, padding = args.shape.padding;
    const int64_t* const own = numbers + bag * args.steps;
    const int64_t count = CountOf(own, args.steps, padding);
    for (int64_t j = Group::Place(); j < columns; j += Group::kSize) {
      double sum = 0;
      for (int64_t step = 0; step < args.steps; ++step) {
        const int64_t id = own[step];
        if (id >= 0 && id != padding) sum += static_cast<double>(args.weight[id * columns + j]);
      }
      args.out[bag * columns + j] = static_cast<float>(sum / static_cast<double>(count > 0 ? count : 1));
    }
  }
};

struct ShareOp {
  const int64_t* numbers;
  int64_t steps, padding;
  __device__ double operator()(int64_t bag) const {
    const int64_t count = CountOf(numbers + bag * steps, steps, padding);
    return static_cast<double>(1.0f / static_cast<float>(count > 0 ? count : 1));
  }
};

struct KeyOp {
  const int64_t* numbers;
  int64_t n, padding;
  int place_bits;
  __device__ uint64_t operator()(int64_t i) const {
    if (i >= n || numbers[i] < 0 || numbers[i] == padding) return kNoKey;
    return static_cast<uint64_t>(numbers[i]) << place_bits | static_cast<uint64_t>(i);
  }
};

// What the place of an id adds to the gradient.
struct RowTerm {
  const float* grad;
  int64_t columns;
  __device__ double operator()(int64_t place, int64_t column) const {
    return static_cast<double>(grad[place * columns + column]);
  }
};
struct BagTerm {
  const float* grad;
  int64_t columns, steps;
  const double* shares;  // each id of a bag has this share of its gradient
  __device__ double operator()(int64_t place, int64_t column) const {
    const int64_t bag = place / steps;
    return shares[bag] * static_cast<double>(grad[bag * columns + column]);
  }
};

// A block adds up the terms of the run that begins at a key, if one does: `width` columns at a time, and as
// many places at once as it has threads for.
template <typename Term>
__global__ void SumRunsKernel(const uint64_t* keys, int64_t n, int place_bits, int64_t columns, int width,
                              Term term, float* grad_weight) {
  __shared__ double parts[kThreads];
  const int lane = static_cast<int>(threadIdx.x) % width, line = static_cast<int>(threadIdx.x) / width;
  const int lines = kThreads / width;
  const uint64_t place_mask = (uint64_t{1} << place_bits) - 1;
  for (int64_t first = blockIdx.x; first < n; first += gridDim.x) {
    const uint64_t id = keys[first] >> place_bits;
    if (keys[first] == kNoKey || (first > 0 && keys[first - 1] >> place_bits == id)) continue;
    for (int64_t begin = 0; begin < columns; begin += width) {
      const int64_t column = begin + lane;
      double sum = 0;
      for (int64_t i = first + line; column < columns && i < n && keys[i] >> place_bits == id; i += lines)
        sum += term(static_cast<int64_t>(keys[i] & place_mask), column);
      parts[threadIdx.x] = sum;
      __syncthreads();
      if (line == 0 && column < columns) {
        for (int other = 1; other < lines; ++other) sum += parts[other * width + lane];
        grad_weight[static_cast<int64_t>(id) * columns + column] = static_cast<float>(sum);
      }
      __syncthreads();  // the parts have been read
    }
  }
}

// Writes the gradient of a weight: zeros, and the sums of the terms of each id. `keys` has memory for
// SortedCount(n).
template <typename Term>
void SumByIds(cudaStream_t stream, const EmbeddingShape& s, const int64_t* numbers, int64_t n, uint64_t* keys,
              Term term, float* grad_weight) {
  const auto bytes = static_cast<size_t>(s.rows * s.columns) * sizeof(float);
  if (bytes == 0) return;
  Require(cudaMemsetAsync(grad_weight, 0, bytes, stream), "cudaMemsetAsync");
  if (n == 0) return;
  const int64_t count = SortedCount(n);
  const auto place_bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(n)));
  Map(stream, count, keys, KeyOp{numbers, n, s.padding, place_bits});
  Sort(stream, keys, count);
  const int width =
      s.columns < kThreads ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(s.columns))) : kThreads;
  Launch(stream, n, SumRunsKernel<Term>, keys, n, place_bits, s.columns, width, term, grad_weight);
}

}  // namespace

void CudaKernels::Embedding(const EmbeddingArgs& args) {
  if (args.n == 0) return;
  auto* const numbers = workspace_.Take<int64_t>(static_cast<size_t>(args.n));
  ReadIds(stream_, args.shape, args.ids, args.n, numbers, Check());
  ForRows(stream_, args.n, args.shape.columns, TakeRow{args, numbers});
}

void CudaKernels::EmbeddingBackward(const EmbeddingBackwardArgs& args) {
  const int64_t n = args.n, count = SortedCount(n);
  auto* const numbers = workspace_.Take<int64_t>(static_cast<size_t>(n + count));
  ReadIds(stream_, args.shape, args.ids, n, numbers, Check());
  SumByIds(stream_, args.shape, numbers, n, reinterpret_cast<uint64_t*>(numbers + n),
           RowTerm{args.grad, args.shape.columns}, args.grad_weight);
}

void CudaKernels::EmbeddingBag(const EmbeddingBagArgs& args) {
  const int64_t n = args.n * args.steps;
  auto* const numbers = workspace_.Take<int64_t>(static_cast<size_t>(n));
  ReadIds(stream_, args.shape, args.ids, n, numbers, Check());
  ForRows(stream_, args.n, args.shape.columns, MeanOfBag{args, numbers});
}

void CudaKernels::EmbeddingBagBackward(const EmbeddingBagBackwardArgs& args) {
  const EmbeddingShape& s = args.shape;
  const int64_t n = args.n * args.steps, count = SortedCount(n);
  auto* const numbers = workspace_.Take<int64_t>(static_cast<size_t>(n + count + args.n));
  auto* const keys = reinterpret_cast<uint64_t*>(numbers + n);
  auto* const shares = reinterpret_cast<double*>(keys + count);
  ReadIds(stream_, s, args.ids, n, numbers, Check());
  Map(stream_, args.n, shares, ShareOp{numbers, args.steps, s.padding});
  SumByIds(stream_, s, numbers, n, keys, BagTerm{args.grad, s.columns, args.steps, shares}, args.grad_weight);
}

}  // namespace sluice::cuda
