// Recurrent layers step by step on products of matrices (docs/design/recurrent.md: why not oneDNN's own).
//
// Inside, time comes first, in the order of the steps taken, so that each step's rows lie together: the
// gates' part from x is one product over all steps, and so are the weights' gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/kernels.h"

namespace sluice::cpu {

class OneDnn;

// What Kernels::Recurrent and its backwards compute.
class Recurrent {
 public:
  explicit Recurrent(OneDnn& onednn) : onednn_(onednn) {}
  void Forward(const RecurrentShape& shape, const RecurrentInputs& inputs, const RecurrentOutputs& outputs,
               float* kept, float* work);
  void Backward(const RecurrentShape& shape, const RecurrentInputs& inputs, const RecurrentHeads& heads,
                float* kept, float* work, const RecurrentGradients& to);
  void BackwardInput(const RecurrentShape& shape, const RecurrentInputs& inputs, const float* kept,
                     float* work, float* grad_x);

 private:
  void ReadLengths(const RecurrentShape& shape, const void* lengths);
  bool Runs(int64_t row, int64_t time) const { return time < lengths_[static_cast<size_t>(row)]; }
  void Step(const RecurrentShape& shape, const RecurrentInputs& inputs, int64_t position, float* kept,
            float* products);
  void StepBackward(const RecurrentShape& shape, const RecurrentInputs& inputs, const RecurrentHeads& heads,
                    int64_t position, float* kept, float* work);
  void WeightGradients(const RecurrentShape& shape, const RecurrentInputs& inputs, float* kept, float* work,
                       const RecurrentGradients& to);
  // copy(whether the sequence still runs, the row's place with batch first, its place with time first).
  template <typename Copy>
  void ForEachRow(const RecurrentShape& shape, int64_t columns, Copy copy) const;
  // Between [batch, steps, columns] and [steps, batch, columns] in the order of the steps taken; beyond a
  // sequence's length the result is 0.
  void ToTimeFirst(const RecurrentShape& shape, const float* from, int64_t columns, float* to) const;
  void ToBatchFirst(const RecurrentShape& shape, const float* from, int64_t columns, float* to) const;

  OneDnn& onednn_;
  std::vector<int64_t> lengths_;  // of the call that runs
  bool all_run_ = true;           // every sequence has all steps
};

// What Kernels::SequenceLengths computes.
void SequenceLengths(DType id_type, const void* ids, int64_t n, int64_t steps, double padding,
                     int32_t* lengths);

}  // namespace sluice::cpu
