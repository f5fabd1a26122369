// A recurrent layer in one direction over whole sequences, as cpu/recurrent.cc has it: the part of the gates
// that comes from x is one product over all steps, each step is a product and a kernel of cells, and the
// gradients of the weights and of x are one product each. It owns the sequences' lengths as numbers (in
// lengths_); autograd/ops/recurrent.cc, which calls it in work on the stream, has all other memory
// (recurrent_memory.h). Invariant: inside, arrays have time as their first axis, in the order in which the
// steps are taken.
#include <utility>

#include "tensor/cuda/error.h"
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/product.h"
#include "tensor/cuda/recurrent_cells.h"
#include "tensor/recurrent_memory.h"

namespace sluice::cuda {
namespace {

int64_t States(const RecurrentShape& s) {
  return s.batch * s.hidden;
}
bool IsGru(const RecurrentShape& s) {
  return s.kind == RecurrentKind::kGru;
}
bool IsLstm(const RecurrentShape& s) {
  return s.kind == RecurrentKind::kLstm;
}

// The work of one call of Recurrent, RecurrentBackward or RecurrentBackwardInput.
class RecurrentCall {
 public:
  RecurrentCall(CudaKernels& kernels, cudaStream_t stream, const RecurrentShape& shape,
                const RecurrentInputs& inputs, const int64_t* lengths)
      : k_(kernels),
        stream_(stream),
        s_(shape),
        in_(inputs),
        sequences_{shape.batch, shape.steps, shape.reverse, lengths} {}

  void Forward(const RecurrentArgs& args) {
    const RecurrentKept kept(s_, args.kept);
    // The GRU's products, or the sum of the biases.
    float *const x = args.work, *const more = x + s_.batch * s_.steps * s_.in;
    ToTimeFirst(stream_, sequences_, in_.x, s_.in, x);
    const float* const bias = SumOrNull(in_.i2h_bias, IsGru(s_) ? nullptr : in_.h2h_bias, more);
    k_.Multiply({false, true, s_.steps * s_.batch, s_.width(), s_.in, s_.arithmetic, bias != nullptr}, x,
                in_.i2h_weight, bias, kept.gates);
    CopyOrZero(in_.hidden, kept.hidden, States(s_));
    if (IsLstm(s_)) CopyOrZero(in_.cell, kept.more, States(s_));
    for (int64_t p = 0; p < s_.steps; ++p) Step(p, args.kept, more);
    ToBatchFirst(stream_, sequences_, kept.hidden + States(s_), s_.hidden, args.outputs.outputs);
    CopyOrZero(kept.hidden + s_.steps * States(s_), args.outputs.hidden, States(s_));
    if (IsLstm(s_)) CopyOrZero(kept.more + s_.steps * States(s_), args.outputs.cell, States(s_));
  }

  void Backward(const RecurrentBackwardArgs& args) {
    const RecurrentWork work(s_, args.work);
    CopyOrZero(args.heads.hidden, work.hidden, States(s_));
    CopyOrZero(args.heads.cell, work.cell, States(s_));
    for (int64_t p = s_.steps - 1; p >= 0; --p) StepBackward(args, p);
    WeightGradients(args);
    if (args.to.hidden != nullptr) CopyOrZero(work.hidden, args.to.hidden, States(s_));
    if (args.to.cell != nullptr) CopyOrZero(work.cell, args.to.cell, States(s_));
  }

  void BackwardInput(const RecurrentBackwardInputArgs& args) {
    k_.Multiply({false, false, s_.steps * s_.batch, s_.in, s_.width(), s_.arithmetic}, args.kept,
                in_.i2h_weight, nullptr, args.work);
    ToBatchFirst(stream_, sequences_, args.work, s_.in, args.grad_x);
  }

 private:
  RecurrentStep StepAt(int64_t p, float* kept_memory, float* products) const {
    const RecurrentKept kept(s_, kept_memory);
    const int64_t states = States(s_);
    RecurrentStep step{.kind = s_.kind,
                       .sequences = sequences_,
                       .position = p,
                       .hidden = s_.hidden,
                       .gates = kept.gates + p * s_.batch * s_.width(),
                       .products = products,
                       .before = kept.hidden + p * states,
                       .after = kept.hidden + (p + 1) * states,
                       .cell_before = nullptr,
                       .cell_after = nullptr,
                       .candidate = nullptr};
    if (IsGru(s_)) step.candidate = kept.more + p * states;
    if (IsLstm(s_)) {
      step.cell_before = kept.more + p * states;
      step.cell_after = step.cell_before + states;
    }
    return step;
  }

  void Step(int64_t p, float* kept, float* products) {
    const RecurrentStep step = StepAt(p, kept, products);
    const float* const bias = IsGru(s_) ? in_.h2h_bias : nullptr;
    k_.Multiply({false, true, s_.batch, s_.width(), s_.hidden, s_.arithmetic, bias != nullptr, !IsGru(s_)},
                step.before, in_.h2h_weight, bias, IsGru(s_) ? products : step.gates);
    ForwardStep(stream_, step);
  }

  void StepBackward(const RecurrentBackwardArgs& args, int64_t p) {
    const RecurrentWork work(s_, args.work);
    const RecurrentStep step = StepAt(p, args.kept, work.products + p * s_.batch * s_.width());
    BackwardStep(stream_, step, args.heads.outputs, work.hidden, work.cell);
    k_.Multiply({false, false, s_.batch, s_.hidden, s_.width(), s_.arithmetic, false, /*adds=*/true},
                IsGru(s_) ? step.products : step.gates, in_.h2h_weight, nullptr, work.hidden);
  }

  void WeightGradients(const RecurrentBackwardArgs& args) {
    const RecurrentGradients& to = args.to;
    const RecurrentKept kept(s_, args.kept);
    const RecurrentWork work(s_, args.work);
    const int64_t rows = s_.steps * s_.batch;
    const float* const products = IsGru(s_) ? work.products : kept.gates;
    if (to.h2h_weight != nullptr)
      k_.Multiply({true, false, s_.width(), s_.hidden, rows, s_.arithmetic}, products, kept.hidden, nullptr,
                  to.h2h_weight);
    if (to.i2h_weight != nullptr) {
      ToTimeFirst(stream_, sequences_, in_.x, s_.in, work.x);
      k_.Multiply({true, false, s_.width(), s_.in, rows, s_.arithmetic}, kept.gates, work.x, nullptr,
                  to.i2h_weight);
    }
    if (to.i2h_bias != nullptr)
      k_.SumOfRows({.a = kept.gates, .sums = to.i2h_bias, .rows = rows, .columns = s_.width()});
    if (to.h2h_bias == nullptr) return;
    if (to.i2h_bias != nullptr && !IsGru(s_)) return CopyOrZero(to.i2h_bias, to.h2h_bias, s_.width());
    k_.SumOfRows({.a = products, .sums = to.h2h_bias, .rows = rows, .columns = s_.width()});
  }

  void CopyOrZero(const float* from, float* to, int64_t n) {
    if (from == nullptr) return k_.Fill({.dtype = DType::kFloat32, .out = to, .value = 0, .n = n});
    k_.Copy({.from = from, .to = to, .bytes = static_cast<size_t>(n) * sizeof(float)});
  }

  // Returns the sum of two rows of all gates, either of which may be null, and null if both are. `sum` is
  // memory for one row.
  const float* SumOrNull(const float* row, const float* other, float* sum) {
    if (row == nullptr || other == nullptr) return row != nullptr ? row : other;
    k_.Combine({.alpha = 1, .a = row, .beta = 1, .b = other, .out = sum, .n = s_.width()});
    return sum;
  }

  CudaKernels& k_;
  const cudaStream_t stream_;
  const RecurrentShape& s_;
  const RecurrentInputs& in_;
  const Sequences sequences_;
};

}  // namespace

const int64_t* CudaKernels::Lengths(const RecurrentShape& shape, const void* lengths) {
  if (lengths == nullptr) return nullptr;
  auto* const numbers = lengths_.Take<int64_t>(static_cast<size_t>(shape.batch));
  ReadLengths(stream_, shape, lengths, Check(), numbers);
  return numbers;
}

void CudaKernels::Recurrent(const RecurrentArgs& args) {
  const int64_t* const lengths = Lengths(args.shape, args.inputs.lengths);
  RecurrentCall(*this, stream_, args.shape, args.inputs, lengths).Forward(args);
}

void CudaKernels::RecurrentBackward(const RecurrentBackwardArgs& args) {
  const int64_t* const lengths = Lengths(args.shape, args.inputs.lengths);
  RecurrentCall(*this, stream_, args.shape, args.inputs, lengths).Backward(args);
}

void CudaKernels::RecurrentBackwardInput(const RecurrentBackwardInputArgs& args) {
  const int64_t* const lengths = Lengths(args.shape, args.inputs.lengths);
  RecurrentCall(*this, stream_, args.shape, args.inputs, lengths).BackwardInput(args);
}

}  // namespace sluice::cuda
