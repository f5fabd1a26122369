// Recurrent layers, step by step on products of matrices. docs/design/recurrent.md says
// why oneDNN's recurrent primitives are not used.
//
// Inside, arrays have time as their first axis, in the order in which the steps are taken, so
// that the rows of a step lie together: the part of the gates that comes from x is one product
// over all steps, and so are the gradients of the weights.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/kernels.h"

namespace sluice::cpu {

class OneDnn;

// Computes Kernels::Recurrent, RecurrentBackward and RecurrentBackwardInput. Not thread-safe.
class Recurrent {
 public:
  explicit Recurrent(OneDnn& onednn) : onednn_(onednn) {}
  void Forward(const RecurrentShape& shape, const RecurrentInputs& inputs, const RecurrentOutputs& outputs,
               float* kept, float* work);
  void Backward(const RecurrentShape& shape, const RecurrentInputs& inputs,
                const RecurrentOutputGradients& heads, float* kept, float* work,
                const RecurrentGradients& to);
  void BackwardInput(const RecurrentShape& shape, const RecurrentInputs& inputs, const float* kept,
                     float* work, float* grad_x);

 private:
  void ReadLengths(const RecurrentShape& shape, const void* lengths);
  bool Runs(int64_t row, int64_t time) const { return time < lengths_[static_cast<size_t>(row)]; }
  void Step(const RecurrentShape& shape, const RecurrentInputs& inputs, int64_t position, float* kept,
            float* products);
  void StepBackward(const RecurrentShape& shape, const RecurrentInputs& inputs,
                    const RecurrentOutputGradients& heads, int64_t position, float* kept, float* work);
  void WeightGradients(const RecurrentShape& shape, const RecurrentInputs& inputs, float* kept, float* work,
                       const RecurrentGradients& to);
  // Calls copy(runs, batch_first, time_first) for every sequence and step, in parallel: whether the sequence
  // has that step, and the offsets of its row in the two orders of axes below.
  template <typename Copy>
  void ForEachRow(const RecurrentShape& shape, int64_t columns, Copy copy) const;
  // Copy between [batch, steps, columns] and [steps, batch, columns], the latter in the order in which the
  // steps are taken. Beyond a sequence's length the result is 0.
  void ToTimeFirst(const RecurrentShape& shape, const float* from, int64_t columns, float* to) const;
  void ToBatchFirst(const RecurrentShape& shape, const float* from, int64_t columns, float* to) const;

  OneDnn& onednn_;
  std::vector<int64_t> lengths_;  // of the running call
  bool all_run_ = true;           // every sequence has all steps
};

// Computes Kernels::SequenceLengths.
void SequenceLengths(DType id_type, const void* ids, int64_t n, int64_t steps, double padding,
                     int32_t* lengths);

}  // namespace sluice::cpu
