// Several arrays that one kernel works on: a block takes chunk after chunk, counted through all arrays.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.h"

namespace sluice::cuda {

// An argument of a kernel. kMost: the most arrays.
template <int kMost>
class ArrayChunks {
 public:
  // A range of elements of one array.
  struct Chunk {
    int array;
    int64_t begin, end;
  };

  explicit ArrayChunks(int64_t chunk_length) : length_(chunk_length) {}
  bool full() const { return arrays_ == kMost; }
  int arrays() const { return arrays_; }
  void Clear() { arrays_ = 0; }
  // Adds the next array, which has n elements, n > 0. Returns its index. There must be room for it.
  int Add(int64_t n) {
    elements_[arrays_] = n;
    ends_[arrays_] = (arrays_ == 0 ? 0 : ends_[arrays_ - 1]) + (n + length_ - 1) / length_;
    return arrays_++;
  }

  __host__ __device__ int64_t count() const { return arrays_ == 0 ? 0 : ends_[arrays_ - 1]; }
  __device__ Chunk Get(int64_t chunk) const {
    int first = 0, last = arrays_ - 1;
    while (first < last) {
      const int middle = (first + last) / 2;
      chunk < ends_[middle] ? last = middle : first = middle + 1;
    }
    const int64_t begin = (chunk - (first == 0 ? 0 : ends_[first - 1])) * length_;
    return {first, begin, elements_[first] < begin + length_ ? elements_[first] : begin + length_};
  }

 private:
  int64_t length_;
  int arrays_ = 0;
  int64_t ends_[kMost], elements_[kMost];  // ends_: how many chunks the arrays up to this one have
};

}  // namespace sluice::cuda
