// Copying and filling arrays of any element type, as words as wide as the addresses allow.
#include <algorithm>
#include <bit>
#include <cstddef>

#include "tensor/cuda/array_chunks.cuh"
#include "tensor/cuda/conversion.cuh"
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/map.cuh"

namespace sluice::cuda {
namespace {

template <typename Word>
struct FillOp {
  Word value;
  __device__ Word operator()(int64_t) const { return value; }
};

template <typename Word>
__global__ void CopyBlocksKernel(const std::byte* from, size_t from_step, std::byte* to, size_t to_step,
                                 int64_t words, int64_t count) {
  const int64_t width = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count * words; i += width) {
    const auto block = static_cast<size_t>(i / words);
    const int64_t word = i % words;
    reinterpret_cast<Word*>(to + block * to_step)[word] =
        reinterpret_cast<const Word*>(from + block * from_step)[word];
  }
}

// The arrays of one launch of CopyAll.
constexpr int kMostCopies = 100;  // the arguments of a kernel have 4 KiB
struct CopyTable {
  ArrayChunks<kMostCopies> chunks;  // words are the elements
  const std::byte* from[kMostCopies];
  std::byte* to[kMostCopies];
};
static_assert(sizeof(CopyTable) <= 4096);

template <typename Word>
__global__ void CopyAllKernel(const __grid_constant__ CopyTable table) {
  for (int64_t i = blockIdx.x; i < table.chunks.count(); i += gridDim.x) {
    const auto [array, begin, end] = table.chunks.Get(i);
    const auto* const from = reinterpret_cast<const Word*>(table.from[array]);
    auto* const to = reinterpret_cast<Word*>(table.to[array]);
    for (int64_t word = begin + threadIdx.x; word < end; word += kThreads) to[word] = from[word];
  }
}

template <typename Word>
bool DivideInto(const CopyAllArgs& args) {
  return std::ranges::all_of(args.copies, [](const CopyArgs& copy) {
    const auto places = reinterpret_cast<uintptr_t>(copy.from) | reinterpret_cast<uintptr_t>(copy.to);
    return (places | copy.bytes) % sizeof(Word) == 0;
  });
}

template <typename Word>
void CopyAllWords(cudaStream_t stream, const CopyAllArgs& args) {
  CopyTable table{.chunks = ArrayChunks<kMostCopies>(int64_t{4} * kUnroll * kThreads), .from = {}, .to = {}};
  const auto launch = [&] {
    if (table.chunks.arrays() > 0) Launch(stream, table.chunks.count(), CopyAllKernel<Word>, table);
    table.chunks.Clear();
  };
  for (const CopyArgs& copy : args.copies) {
    if (copy.bytes == 0) continue;
    if (table.chunks.full()) launch();
    const int i = table.chunks.Add(static_cast<int64_t>(copy.bytes / sizeof(Word)));
    table.from[i] = static_cast<const std::byte*>(copy.from);
    table.to[i] = static_cast<std::byte*>(copy.to);
  }
  launch();
}

template <typename Word>
bool DivideInto(const CopyBlocksArgs& args) {
  const auto places = reinterpret_cast<uintptr_t>(args.from) | reinterpret_cast<uintptr_t>(args.to);
  return (places | args.from_step | args.to_step | args.bytes) % sizeof(Word) == 0;
}

template <typename Word>
void CopyWords(cudaStream_t stream, const CopyBlocksArgs& args) {
  const auto words = static_cast<int64_t>(args.bytes / sizeof(Word));
  Launch(stream, (args.count * words + kThreads - 1) / kThreads, CopyBlocksKernel<Word>,
         static_cast<const std::byte*>(args.from), args.from_step, static_cast<std::byte*>(args.to),
         args.to_step, words, args.count);
}

}  // namespace

void CudaKernels::Copy(const CopyArgs& args) {
  const auto* const from = static_cast<const std::byte*>(args.from);
  auto* const to = static_cast<std::byte*>(args.to);
  if (args.bytes == 0 || from == to) return;
  const auto copy = [&](const void* source, void* target) {
    Require(cudaMemcpyAsync(target, source, args.bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
  };
  if (from + args.bytes <= to || to + args.bytes <= from) return copy(from, to);
  auto* const between = workspace_.Take<std::byte>(args.bytes);  // CUDA copies no bytes that overlap
  copy(from, between);
  copy(between, to);
}

void CudaKernels::CopyAll(const CopyAllArgs& args) {
  if (DivideInto<uint4>(args)) return CopyAllWords<uint4>(stream_, args);
  if (DivideInto<uint32_t>(args)) return CopyAllWords<uint32_t>(stream_, args);
  CopyAllWords<uint8_t>(stream_, args);
}

void CudaKernels::CopyBlocks(const CopyBlocksArgs& args) {
  if (args.bytes == 0 || args.count == 0) return;
  if (DivideInto<uint4>(args)) return CopyWords<uint4>(stream_, args);
  if (DivideInto<uint32_t>(args)) return CopyWords<uint32_t>(stream_, args);
  CopyWords<uint8_t>(stream_, args);
}

void CudaKernels::Fill(const FillArgs& args) {
  WithType(args.dtype, [&]<typename T>(T) {
    const T value = Rounded<T>(args.value);
    Map(stream_, args.n, static_cast<T*>(args.out), FillOp<T>{value});
  });
}

}  // namespace sluice::cuda
