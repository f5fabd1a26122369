// One recurrent layer in one direction over whole sequences. sluice/ops.h has the formulas and the order of
// the gates.
#pragma once

#include <cstdint>

#include "sluice/dtype.h"
#include "tensor/kernels/dense.h"

namespace sluice {

enum class RecurrentKind : uint8_t { kRnnTanh, kRnnRelu, kLstm, kGru };

struct RecurrentShape {
  RecurrentKind kind = RecurrentKind::kRnnTanh;
  int64_t batch = 0, steps = 0, in = 0, hidden = 0;
  bool reverse = false;  // from each sequence's last step to its first
  DType length_type = DType::kInt32;
  Arithmetic arithmetic = Arithmetic::kFloat32;
  int64_t gates() const { return kind == RecurrentKind::kLstm ? 4 : (kind == RecurrentKind::kGru ? 3 : 1); }
  int64_t width() const { return gates() * hidden; }
  // kept_size: the floats that Recurrent leaves for RecurrentBackward. work_size and backward_work_size:
  // the floats of temporary memory that each of them needs.
  int64_t kept_size() const {
    const bool lstm = kind == RecurrentKind::kLstm, gru = kind == RecurrentKind::kGru;
    return batch * (steps * width() + (steps + 1) * hidden * (lstm ? 2 : 1) + (gru ? steps * hidden : 0));
  }
  int64_t work_size() const {
    return batch * steps * in + (kind == RecurrentKind::kGru ? batch : 1) * width();
  }
  int64_t backward_work_size() const {
    return batch * (steps * in + 2 * hidden + (kind == RecurrentKind::kGru ? steps * width() : 0));
  }
};

// x is [batch, steps, in]; the weights are [width, in] and [width, hidden]; the biases are [width] or null;
// hidden and cell, the states before the first step, are [batch, hidden] or null (zeros); lengths is [batch]
// of shape.length_type, or null (all sequences have all steps).
struct RecurrentInputs {
  const float *x, *i2h_weight, *h2h_weight, *i2h_bias, *h2h_bias, *hidden, *cell;
  const void* lengths;
};
// outputs is [batch, steps, hidden]; hidden and cell, the states after the last
// step, are [batch, hidden]. Only kLstm has cell.
struct RecurrentOutputs {
  float *outputs, *hidden, *cell;
};
// The gradients by the RecurrentOutputs; null stands for zeros.
struct RecurrentOutputGradients {
  const float *outputs, *hidden, *cell;
};
// The gradients by the weights, by the biases, and by the states before the
// first step; null ones are not computed.
struct RecurrentGradients {
  float *i2h_weight, *h2h_weight, *i2h_bias, *h2h_bias, *hidden, *cell;
};

// Beyond a sequence's length its outputs are 0 and its state does not change. Throws Error(kInvalidArgument)
// for a length outside [0, steps].
struct RecurrentArgs {
  RecurrentShape shape;
  RecurrentInputs inputs;
  RecurrentOutputs outputs;
  float* kept;  // [shape.kept_size()]
  float* work;  // [shape.work_size()]
};

struct RecurrentBackwardArgs {
  RecurrentShape shape;
  RecurrentInputs inputs;  // the biases are not read
  RecurrentOutputGradients heads;
  float* kept;  // as Recurrent left it; receives the gradients of the gates in place of their values
  float* work;  // [shape.backward_work_size()]
  RecurrentGradients to;
};

struct RecurrentBackwardInputArgs {
  RecurrentShape shape;
  RecurrentInputs inputs;  // i2h_weight and lengths are read
  const float* kept;       // as RecurrentBackward left it
  float* work;             // [shape.backward_work_size()]
  float* grad_x;
};

}  // namespace sluice
