// Recurrent layers on CPUs, as matrix products by oneDNN and loops over cells (recurrent_cells.h) for every
// step; docs/design/recurrent.md has the reasons. Forward keeps the gates and states of all steps; Backward
// goes through the steps in reverse and replaces the gates by their gradients, from which one product each
// gives the gradients of the weights and of x. autograd/ops/recurrent.cc calls the methods, in work on the
// stream's thread; loops over the sequences of a batch run on the context's team.
//
// Inside, arrays have time as their first axis, in the order in which the steps are taken, so that the rows
// of a step lie together: the part of the gates that comes from x is one product over all steps, and so are
// the gradients of the weights.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "tensor/bad_input.h"
#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/onednn_product.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/recurrent_cells.h"
#include "tensor/cpu/whole_numbers.h"
#include "tensor/recurrent_memory.h"

namespace sluice::cpu {
namespace {

int64_t States(const RecurrentShape& s) {
  return s.batch * s.hidden;
}
bool IsGru(const RecurrentShape& s) {
  return s.kind == RecurrentKind::kGru;
}

size_t Bytes(int64_t floats) {
  return static_cast<size_t>(floats) * sizeof(float);
}

void CopyOrZero(const float* from, float* to, int64_t n) {
  if (n == 0) return;
  if (from == nullptr) {
    std::memset(to, 0, Bytes(n));
  } else {
    std::memcpy(to, from, Bytes(n));
  }
}

// The number of rows of `row` elements that are worth a thread.
int64_t Grain(int64_t row) {
  return (int64_t{16} << 10) / std::max<int64_t>(1, row) + 1;
}

int64_t TimeOf(const RecurrentShape& s, int64_t position) {
  return s.reverse ? s.steps - 1 - position : position;
}

// Returns the sum of two rows, either of which may be null, and null if
// both are. `sum` is memory for one row.
const float* SumOrNull(const float* row, const float* other, float* sum, int64_t columns) {
  if (row == nullptr || other == nullptr) return row != nullptr ? row : other;
  Combine(1, row, 1, other, sum, columns);
  return sum;
}

// The work of one call of Recurrent, RecurrentBackward or RecurrentBackwardInput.
class RecurrentCall {
 public:
  // `lengths` is memory for the sequences' lengths.
  RecurrentCall(OneDnn& onednn, const RecurrentShape& shape, const RecurrentInputs& inputs,
                std::vector<int64_t>* lengths)
      : onednn_(onednn), s_(shape), in_(inputs), all_run_(inputs.lengths == nullptr), lengths_(*lengths) {
    ReadLengths(inputs.lengths);
  }
  void Forward(const RecurrentArgs& args);
  void Backward(const RecurrentBackwardArgs& args);
  void BackwardInput(const RecurrentBackwardInputArgs& args);

 private:
  void ReadLengths(const void* lengths);
  bool Runs(int64_t row, int64_t time) const { return time < lengths_[static_cast<size_t>(row)]; }
  void Step(int64_t position, float* kept, float* products);
  void StepBackward(const RecurrentBackwardArgs& args, int64_t position);
  void WeightGradients(const RecurrentBackwardArgs& args);
  // Calls copy(runs, batch_first, time_first) for every sequence and step, in parallel: whether the sequence
  // has that step, and the offsets of its row in the two orders of axes below.
  template <typename Copy>
  void ForEachRow(int64_t columns, Copy copy) const;
  // Copy between [batch, steps, columns] and [steps, batch, columns], the latter in the order in which the
  // steps are taken. Beyond a sequence's length the result is 0.
  void ToTimeFirst(const float* from, int64_t columns, float* to) const;
  void ToBatchFirst(const float* from, int64_t columns, float* to) const;

  OneDnn& onednn_;
  const RecurrentShape s_;  // with the arithmetic that is used
  const RecurrentInputs& in_;
  const bool all_run_;  // every sequence has all steps
  std::vector<int64_t>& lengths_;
};

void RecurrentCall::ReadLengths(const void* lengths) {
  if (all_run_) {
    lengths_.assign(static_cast<size_t>(s_.batch), s_.steps);
    return;
  }
  ReadWholeNumbers(
      s_.length_type, lengths, s_.batch, s_.steps + 1, &lengths_,
      [&](const std::string& length, int64_t sequence) { throw BadLength(length, sequence, s_.steps); });
}

template <typename Copy>
void RecurrentCall::ForEachRow(int64_t columns, Copy copy) const {
  ParallelFor(s_.batch, Grain(s_.steps * columns), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) {
      for (int64_t p = 0; p < s_.steps; ++p) {
        const int64_t time = TimeOf(s_, p);
        copy(Runs(row, time), (row * s_.steps + time) * columns, (p * s_.batch + row) * columns);
      }
    }
  });
}

void RecurrentCall::ToTimeFirst(const float* from, int64_t columns, float* to) const {
  ForEachRow(columns, [=](bool runs, int64_t batch_first, int64_t time_first) {
    CopyOrZero(runs ? from + batch_first : nullptr, to + time_first, columns);
  });
}

void RecurrentCall::ToBatchFirst(const float* from, int64_t columns, float* to) const {
  ForEachRow(columns, [=](bool runs, int64_t batch_first, int64_t time_first) {
    CopyOrZero(runs ? from + time_first : nullptr, to + batch_first, columns);
  });
}

void RecurrentCall::Forward(const RecurrentArgs& args) {
  const RecurrentOutputs& out = args.outputs;
  const RecurrentKept k(s_, args.kept);
  float *x = args.work,
        *more = x + s_.batch * s_.steps * s_.in;  // the GRU's products, or the sum of the biases
  const bool lstm = s_.kind == RecurrentKind::kLstm;
  ToTimeFirst(in_.x, s_.in, x);
  const float* bias = SumOrNull(in_.i2h_bias, IsGru(s_) ? nullptr : in_.h2h_bias, more, s_.width());
  onednn_.Multiply({false, true, s_.steps * s_.batch, s_.width(), s_.in, s_.arithmetic, bias != nullptr}, x,
                   in_.i2h_weight, bias, k.gates);
  CopyOrZero(in_.hidden, k.hidden, States(s_));
  if (lstm) CopyOrZero(in_.cell, k.more, States(s_));
  for (int64_t p = 0; p < s_.steps; ++p) Step(p, args.kept, more);
  ToBatchFirst(k.hidden + States(s_), s_.hidden, out.outputs);
  CopyOrZero(k.hidden + s_.steps * States(s_), out.hidden, States(s_));
  if (lstm) CopyOrZero(k.more + s_.steps * States(s_), out.cell, States(s_));
}

void RecurrentCall::Step(int64_t p, float* kept, float* products) {
  const RecurrentKept k(s_, kept);
  const int64_t n = s_.hidden;
  float *gates = k.gates + p * s_.batch * s_.width(), *before = k.hidden + p * States(s_),
        *after = before + States(s_), *more = k.more + p * States(s_);
  const float* bias = IsGru(s_) ? in_.h2h_bias : nullptr;
  onednn_.Multiply({false, true, s_.batch, s_.width(), n, s_.arithmetic, bias != nullptr, !IsGru(s_)}, before,
                   in_.h2h_weight, bias, IsGru(s_) ? products : gates);
  ParallelFor(s_.batch, Grain(4 * s_.width()), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) {
      const int64_t at = row * n;
      float* own = gates + row * s_.width();
      if (!Runs(row, TimeOf(s_, p))) {
        std::memcpy(after + at, before + at, Bytes(n));
        if (s_.kind == RecurrentKind::kLstm) std::memcpy(more + States(s_) + at, more + at, Bytes(n));
        continue;
      }
      switch (s_.kind) {
        case RecurrentKind::kRnnTanh:
          RnnTanhCell(own, after + at, n);
          break;
        case RecurrentKind::kRnnRelu:
          RnnReluCell(own, after + at, n);
          break;
        case RecurrentKind::kLstm:
          LstmCell(own, more + at, more + States(s_) + at, after + at, n);
          break;
        case RecurrentKind::kGru:
          GruCell(own, products + row * s_.width(), before + at, more + at, after + at, n);
          break;
      }
    }
  });
}

void RecurrentCall::Backward(const RecurrentBackwardArgs& args) {
  const RecurrentGradients& to = args.to;
  const RecurrentWork w(s_, args.work);
  CopyOrZero(args.heads.hidden, w.hidden, States(s_));
  CopyOrZero(args.heads.cell, w.cell, States(s_));
  for (int64_t p = s_.steps - 1; p >= 0; --p) StepBackward(args, p);
  WeightGradients(args);
  if (to.hidden != nullptr) CopyOrZero(w.hidden, to.hidden, States(s_));
  if (to.cell != nullptr) CopyOrZero(w.cell, to.cell, States(s_));
}

void RecurrentCall::StepBackward(const RecurrentBackwardArgs& args, int64_t p) {
  const RecurrentKept k(s_, args.kept);
  const RecurrentWork w(s_, args.work);
  const float* by_outputs = args.heads.outputs;
  const int64_t n = s_.hidden, time = TimeOf(s_, p);
  float *gates = k.gates + p * s_.batch * s_.width(), *before = k.hidden + p * States(s_),
        *after = before + States(s_), *more = k.more + p * States(s_);
  float* products = IsGru(s_) ? w.products + p * s_.batch * s_.width() : gates;
  // Whether the product below is added to w.hidden, as happens where w.hidden holds some of
  // the gradient of the state before this step: for the GRU, and for sequences that have
  // ended. Otherwise the product alone is that gradient.
  const bool adds = IsGru(s_) || !all_run_;
  ParallelFor(s_.batch, Grain(4 * s_.width()), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) {
      const int64_t at = row * n;
      float *own = gates + row * s_.width(), *grad = w.hidden + at;
      if (!Runs(row, time)) {
        CopyOrZero(nullptr, own, s_.width());
        CopyOrZero(nullptr, products + row * s_.width(), s_.width());
        continue;
      }
      if (by_outputs != nullptr) Combine(1, grad, 1, by_outputs + (row * s_.steps + time) * n, grad, n);
      switch (s_.kind) {
        case RecurrentKind::kRnnTanh:
          RnnTanhCellBackward(after + at, grad, own, n);
          break;
        case RecurrentKind::kRnnRelu:
          RnnReluCellBackward(after + at, grad, own, n);
          break;
        case RecurrentKind::kLstm:
          LstmCellBackward(own, more + at, more + States(s_) + at, grad, w.cell + at, n);
          break;
        case RecurrentKind::kGru:
          GruCellBackward(own, before + at, more + at, grad, products + row * s_.width(), n);
          break;
      }
      if (adds && !IsGru(s_)) CopyOrZero(nullptr, grad, n);
    }
  });
  onednn_.Multiply({false, false, s_.batch, n, s_.width(), s_.arithmetic, false, adds}, products,
                   in_.h2h_weight, nullptr, w.hidden);
}

void RecurrentCall::WeightGradients(const RecurrentBackwardArgs& args) {
  const RecurrentGradients& to = args.to;
  const RecurrentKept k(s_, args.kept);
  const RecurrentWork w(s_, args.work);
  const int64_t rows = s_.steps * s_.batch;
  const float* products = IsGru(s_) ? w.products : k.gates;
  if (to.h2h_weight != nullptr)
    onednn_.Multiply({true, false, s_.width(), s_.hidden, rows, s_.arithmetic}, products, k.hidden, nullptr,
                     to.h2h_weight);
  if (to.i2h_weight != nullptr) {
    ToTimeFirst(in_.x, s_.in, w.x);
    onednn_.Multiply({true, false, s_.width(), s_.in, rows, s_.arithmetic}, k.gates, w.x, nullptr,
                     to.i2h_weight);
  }
  if (to.i2h_bias != nullptr) SumRows(k.gates, to.i2h_bias, rows, s_.width());
  if (to.h2h_bias == nullptr) return;
  if (to.i2h_bias != nullptr && !IsGru(s_)) {
    CopyOrZero(to.i2h_bias, to.h2h_bias, s_.width());
  } else {
    SumRows(products, to.h2h_bias, rows, s_.width());
  }
}

void RecurrentCall::BackwardInput(const RecurrentBackwardInputArgs& args) {
  onednn_.Multiply({false, false, s_.steps * s_.batch, s_.in, s_.width(), s_.arithmetic}, args.kept,
                   in_.i2h_weight, nullptr, args.work);
  ToBatchFirst(args.work, s_.in, args.grad_x);
}

}  // namespace

void CpuKernels::Recurrent(const RecurrentArgs& args) {
  RecurrentCall(onednn_, WithSupportedArithmetic(args.shape), args.inputs, &whole_numbers_).Forward(args);
}

void CpuKernels::RecurrentBackward(const RecurrentBackwardArgs& args) {
  RecurrentCall(onednn_, WithSupportedArithmetic(args.shape), args.inputs, &whole_numbers_).Backward(args);
}

void CpuKernels::RecurrentBackwardInput(const RecurrentBackwardInputArgs& args) {
  RecurrentCall(onednn_, WithSupportedArithmetic(args.shape), args.inputs, &whole_numbers_)
      .BackwardInput(args);
}

}  // namespace sluice::cpu
