// Embeddings: rows of a weight by their numbers, their means over bags (the ids of one sample), and
// the gradients of both. Ids are read and checked once for each call (ReadIds), on the stream's thread; then
// the rows of results, or the columns of gradients, are divided among the threads of the context's team.
// Invariant: a gradient's element is summed by one thread, in the order of the ids, so the number of threads
// changes no bit. autograd/ops/embedding.cc calls the methods, in work on the stream.
#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "base/simd.h"
#include "tensor/bad_input.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/lanes.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/whole_numbers.h"

namespace sluice::cpu {
namespace {

using Numbers = std::vector<int64_t>;

SLUICE_SIMD void Add(const float* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

SLUICE_SIMD void AddScaled(float factor, const float* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

SLUICE_SIMD void AddWide(const float* from, double* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

void ClearColumns(const EmbeddingShape& s, float* grad_weight, int64_t first, int64_t last) {
  for (int64_t row = 0; row < s.rows; ++row)
    std::fill(grad_weight + row * s.columns + first, grad_weight + row * s.columns + last, 0.0f);
}

float ShareOf(int64_t count) {
  return 1.0f / static_cast<float>(std::max<int64_t>(count, 1));
}

// Replaces the contents of `numbers` by the n ids. Throws Error(kInvalidArgument), which names the id and
// its place, for one that is no whole number in [0, rows).
void ReadIds(const EmbeddingShape& s, const void* ids, int64_t n, Numbers* numbers) {
  ReadWholeNumbers(s.id_type, ids, n, s.rows, numbers,
                   [&](const std::string& id, int64_t place) { throw BadId(id, place, s.rows); });
}

// The ids of bags, and how many of each bag are not padding.
struct Bags {
  const Numbers& ids;
  const Numbers& counts;
  int64_t steps;
  std::span<const int64_t> operator[](int64_t bag) const {
    return std::span(ids).subspan(static_cast<size_t>(bag * steps), static_cast<size_t>(steps));
  }
  int64_t CountOf(int64_t bag) const { return counts[static_cast<size_t>(bag)]; }
};

// Reads the ids of EmbeddingBag, or EmbeddingBagBackward, and counts them.
template <typename Args>
Bags ReadBags(const Args& args, Numbers* ids, Numbers* counts) {
  ReadIds(args.shape, args.ids, args.n * args.steps, ids);
  counts->resize(static_cast<size_t>(args.n));
  Bags bags{*ids, *counts, args.steps};
  for (int64_t bag = 0; bag < args.n; ++bag)
    (*counts)[static_cast<size_t>(bag)] = args.steps - std::ranges::count(bags[bag], args.shape.padding);
  return bags;
}

// Computes columns [first, last) of: grad_weight = 0, then grad_weight[ids[i]] += grad[i], in the order of i.
void ScatterRows(const EmbeddingBackwardArgs& args, const Numbers& ids, int64_t first, int64_t last) {
  const EmbeddingShape& s = args.shape;
  ClearColumns(s, args.grad_weight, first, last);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == s.padding) continue;
    Add(args.grad + static_cast<int64_t>(i) * s.columns + first,
        args.grad_weight + ids[i] * s.columns + first, last - first);
  }
}

// Computes the means of bags [first, last).
void MeanRows(const EmbeddingBagArgs& args, const Bags& bags, int64_t first, int64_t last) {
  constexpr int64_t kBlock = 64;
  const EmbeddingShape& s = args.shape;
  for (int64_t bag = first; bag < last; ++bag) {
    const auto words = bags[bag];
    const auto number = static_cast<double>(std::max<int64_t>(bags.CountOf(bag), 1));
    for (int64_t column = 0; column < s.columns; column += kBlock) {
      const int64_t count = std::min(kBlock, s.columns - column);
      double sums[kBlock] = {};
      for (const int64_t word : words) {
        if (word != s.padding) AddWide(args.weight + word * s.columns + column, sums, count);
      }
      for (int64_t j = 0; j < count; ++j)
        args.out[bag * s.columns + column + j] = static_cast<float>(sums[j] / number);
    }
  }
}

// Computes columns [first, last) of: grad_weight = 0, then grad_weight[id] += grad[bag] /
// counts[bag] for each id of each bag, in order.
void SpreadRows(const EmbeddingBagBackwardArgs& args, const Bags& bags, int64_t first, int64_t last) {
  const EmbeddingShape& s = args.shape;
  ClearColumns(s, args.grad_weight, first, last);
  for (int64_t bag = 0; bag < args.n; ++bag) {
    const float* from = args.grad + bag * s.columns + first;
    const float share = ShareOf(bags.CountOf(bag));
    for (const int64_t word : bags[bag]) {
      if (word != s.padding)
        AddScaled(share, from, args.grad_weight + word * s.columns + first, last - first);
    }
  }
}

// Calls do_columns(first, last) in parallel for all columns of a gradient to which `n` ids add. The rows
// are not divided, so every element is summed by one thread, in the order of the ids.
template <typename Do>
void ForColumns(const EmbeddingShape& s, int64_t n, Do do_columns) {
  ParallelFor(s.columns, std::max<int64_t>(PiecesWorthAThread(s.rows + n), kLanes), do_columns);
}

}  // namespace

void CpuKernels::Embedding(const EmbeddingArgs& args) {
  const EmbeddingShape& s = args.shape;
  ReadIds(s, args.ids, args.n, &whole_numbers_);
  const size_t bytes = static_cast<size_t>(s.columns) * sizeof(float);
  ParallelFor(args.n, PiecesWorthAThread(s.columns), [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      const int64_t id = whole_numbers_[static_cast<size_t>(i)];
      if (id == s.padding)
        std::memset(args.out + i * s.columns, 0, bytes);
      else
        std::memcpy(args.out + i * s.columns, args.weight + id * s.columns, bytes);
    }
  });
}

void CpuKernels::EmbeddingBackward(const EmbeddingBackwardArgs& args) {
  ReadIds(args.shape, args.ids, args.n, &whole_numbers_);
  ForColumns(args.shape, args.n,
             [&](int64_t column, int64_t end) { ScatterRows(args, whole_numbers_, column, end); });
}

void CpuKernels::EmbeddingBag(const EmbeddingBagArgs& args) {
  const Bags bags = ReadBags(args, &whole_numbers_, &bag_counts_);
  ParallelFor(args.n, PiecesWorthAThread(args.steps * args.shape.columns),
              [&](int64_t bag, int64_t end) { MeanRows(args, bags, bag, end); });
}

void CpuKernels::EmbeddingBagBackward(const EmbeddingBagBackwardArgs& args) {
  const Bags bags = ReadBags(args, &whole_numbers_, &bag_counts_);
  ForColumns(args.shape, args.n * args.steps,
             [&](int64_t column, int64_t end) { SpreadRows(args, bags, column, end); });
}

}  // namespace sluice::cpu
