// Recurrent layers on CPUs, as matrix products by oneDNN and loops over cells (recurrent_cells.h) for every
// step; docs/design/recurrent.md has the reasons. Forward keeps the gates and states of all steps; Backward
// goes through the steps in reverse and replaces the gates by their gradients, from which one product each
// gives the gradients of the weights and of x. CpuKernels calls the methods on the stream's thread; loops
// over the sequences of a batch run on the context's team.
#include "tensor/cpu/recurrent.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/onednn.h"
#include "tensor/cpu/onednn_product.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/recurrent_cells.h"
#include "tensor/cpu/whole_numbers.h"

namespace sluice::cpu {
namespace {

int64_t States(const RecurrentShape& s) {
  return s.batch * s.hidden;
}
bool IsGru(const RecurrentShape& s) {
  return s.kind == RecurrentKind::kGru;
}

// The parts of `kept`, with time first. States at index 0 are those before the
// first step, at index i those after i steps.
struct Kept {
  Kept(const RecurrentShape& s, float* kept)
      : gates(kept),
        hidden(gates + s.steps * s.batch * s.width()),
        more(hidden + (s.steps + 1) * States(s)) {}
  float *gates, *hidden, *more;  // more: the LSTM's cells (as states), or the GRU's candidates
};
// The parts of the temporary memory of Backward: x with time first; the gradients of the hidden states and
// of the cells; and, for the GRU, those of the products of the hidden states with their weights.
struct Work {
  Work(const RecurrentShape& s, float* work)
      : x(work), hidden(x + s.batch * s.steps * s.in), cell(hidden + States(s)), products(cell + States(s)) {}
  float *x, *hidden, *cell, *products;
};

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

}  // namespace

void SequenceLengths(DType type, const void* ids, int64_t n, int64_t steps, double padding,
                     int32_t* lengths) {
  WithValues(type, ids, [&](const auto* values) {
    for (int64_t i = 0; i < n; ++i) {
      int64_t length = steps;
      while (length > 0 && static_cast<double>(values[i * steps + length - 1]) == padding) --length;
      lengths[i] = static_cast<int32_t>(length);
    }
  });
}

void Recurrent::ReadLengths(const RecurrentShape& s, const void* lengths) {
  all_run_ = lengths == nullptr;
  if (all_run_) {
    lengths_.assign(static_cast<size_t>(s.batch), s.steps);
    return;
  }
  ReadWholeNumbers(s.length_type, lengths, s.batch, s.steps + 1, &lengths_,
                   [&](const std::string& length, int64_t sequence) {
                     throw Error(ErrorCode::kInvalidArgument,
                                 StrCat("length ", length, " of sequence ", sequence,
                                        " is no whole number from 0 to ", s.steps));
                   });
}

template <typename Copy>
void Recurrent::ForEachRow(const RecurrentShape& s, int64_t columns, Copy copy) const {
  ParallelFor(s.batch, Grain(s.steps * columns), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) {
      for (int64_t p = 0; p < s.steps; ++p) {
        const int64_t time = TimeOf(s, p);
        copy(Runs(row, time), (row * s.steps + time) * columns, (p * s.batch + row) * columns);
      }
    }
  });
}

void Recurrent::ToTimeFirst(const RecurrentShape& s, const float* from, int64_t columns, float* to) const {
  ForEachRow(s, columns, [=](bool runs, int64_t batch_first, int64_t time_first) {
    CopyOrZero(runs ? from + batch_first : nullptr, to + time_first, columns);
  });
}

void Recurrent::ToBatchFirst(const RecurrentShape& s, const float* from, int64_t columns, float* to) const {
  ForEachRow(s, columns, [=](bool runs, int64_t batch_first, int64_t time_first) {
    CopyOrZero(runs ? from + time_first : nullptr, to + batch_first, columns);
  });
}

void Recurrent::Forward(const RecurrentShape& s, const RecurrentInputs& in, const RecurrentOutputs& out,
                        float* kept, float* work) {
  ReadLengths(s, in.lengths);
  const Kept k(s, kept);
  float *x = work, *more = work + s.batch * s.steps * s.in;  // the GRU's products, or the sum of the biases
  const bool lstm = s.kind == RecurrentKind::kLstm;
  ToTimeFirst(s, in.x, s.in, x);
  const float* bias = SumOrNull(in.i2h_bias, IsGru(s) ? nullptr : in.h2h_bias, more, s.width());
  onednn_.Multiply({false, true, s.steps * s.batch, s.width(), s.in, s.arithmetic, bias != nullptr}, x,
                   in.i2h_weight, bias, k.gates);
  CopyOrZero(in.hidden, k.hidden, States(s));
  if (lstm) CopyOrZero(in.cell, k.more, States(s));
  for (int64_t p = 0; p < s.steps; ++p) Step(s, in, p, kept, more);
  ToBatchFirst(s, k.hidden + States(s), s.hidden, out.outputs);
  CopyOrZero(k.hidden + s.steps * States(s), out.hidden, States(s));
  if (lstm) CopyOrZero(k.more + s.steps * States(s), out.cell, States(s));
}

void Recurrent::Step(const RecurrentShape& s, const RecurrentInputs& in, int64_t p, float* kept,
                     float* products) {
  const Kept k(s, kept);
  const int64_t n = s.hidden;
  float *gates = k.gates + p * s.batch * s.width(), *before = k.hidden + p * States(s),
        *after = before + States(s), *more = k.more + p * States(s);
  const float* bias = IsGru(s) ? in.h2h_bias : nullptr;
  onednn_.Multiply({false, true, s.batch, s.width(), n, s.arithmetic, bias != nullptr, !IsGru(s)}, before,
                   in.h2h_weight, bias, IsGru(s) ? products : gates);
  ParallelFor(s.batch, Grain(4 * s.width()), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) {
      const int64_t at = row * n;
      float* own = gates + row * s.width();
      if (!Runs(row, TimeOf(s, p))) {
        std::memcpy(after + at, before + at, Bytes(n));
        if (s.kind == RecurrentKind::kLstm) std::memcpy(more + States(s) + at, more + at, Bytes(n));
        continue;
      }
      switch (s.kind) {
        case RecurrentKind::kRnnTanh:
          RnnTanhCell(own, after + at, n);
          break;
        case RecurrentKind::kRnnRelu:
          RnnReluCell(own, after + at, n);
          break;
        case RecurrentKind::kLstm:
          LstmCell(own, more + at, more + States(s) + at, after + at, n);
          break;
        case RecurrentKind::kGru:
          GruCell(own, products + row * s.width(), before + at, more + at, after + at, n);
          break;
      }
    }
  });
}

void Recurrent::Backward(const RecurrentShape& s, const RecurrentInputs& in,
                         const RecurrentOutputGradients& heads, float* kept, float* work,
                         const RecurrentGradients& to) {
  ReadLengths(s, in.lengths);
  const Work w(s, work);
  CopyOrZero(heads.hidden, w.hidden, States(s));
  CopyOrZero(heads.cell, w.cell, States(s));
  for (int64_t p = s.steps - 1; p >= 0; --p) StepBackward(s, in, heads, p, kept, work);
  WeightGradients(s, in, kept, work, to);
  if (to.hidden != nullptr) CopyOrZero(w.hidden, to.hidden, States(s));
  if (to.cell != nullptr) CopyOrZero(w.cell, to.cell, States(s));
}

void Recurrent::StepBackward(const RecurrentShape& s, const RecurrentInputs& in,
                             const RecurrentOutputGradients& heads, int64_t p, float* kept, float* work) {
  const Kept k(s, kept);
  const Work w(s, work);
  const int64_t n = s.hidden, time = TimeOf(s, p);
  float *gates = k.gates + p * s.batch * s.width(), *before = k.hidden + p * States(s),
        *after = before + States(s), *more = k.more + p * States(s);
  float* products = IsGru(s) ? w.products + p * s.batch * s.width() : gates;
  // Whether the product below is added to w.hidden, as happens where w.hidden holds some of
  // the gradient of the state before this step: for the GRU, and for sequences that have
  // ended. Otherwise the product alone is that gradient.
  const bool adds = IsGru(s) || !all_run_;
  ParallelFor(s.batch, Grain(4 * s.width()), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) {
      const int64_t at = row * n;
      float *own = gates + row * s.width(), *grad = w.hidden + at;
      if (!Runs(row, time)) {
        CopyOrZero(nullptr, own, s.width());
        CopyOrZero(nullptr, products + row * s.width(), s.width());
        continue;
      }
      if (heads.outputs != nullptr) Combine(1, grad, 1, heads.outputs + (row * s.steps + time) * n, grad, n);
      switch (s.kind) {
        case RecurrentKind::kRnnTanh:
          RnnTanhCellBackward(after + at, grad, own, n);
          break;
        case RecurrentKind::kRnnRelu:
          RnnReluCellBackward(after + at, grad, own, n);
          break;
        case RecurrentKind::kLstm:
          LstmCellBackward(own, more + at, more + States(s) + at, grad, w.cell + at, n);
          break;
        case RecurrentKind::kGru:
          GruCellBackward(own, before + at, more + at, grad, products + row * s.width(), n);
          break;
      }
      if (adds && !IsGru(s)) CopyOrZero(nullptr, grad, n);
    }
  });
  onednn_.Multiply({false, false, s.batch, n, s.width(), s.arithmetic, false, adds}, products, in.h2h_weight,
                   nullptr, w.hidden);
}

void Recurrent::WeightGradients(const RecurrentShape& s, const RecurrentInputs& in, float* kept, float* work,
                                const RecurrentGradients& to) {
  const Kept k(s, kept);
  const Work w(s, work);
  const int64_t rows = s.steps * s.batch;
  const float* products = IsGru(s) ? w.products : k.gates;
  if (to.h2h_weight != nullptr)
    onednn_.Multiply({true, false, s.width(), s.hidden, rows, s.arithmetic}, products, k.hidden, nullptr,
                     to.h2h_weight);
  if (to.i2h_weight != nullptr) {
    ToTimeFirst(s, in.x, s.in, w.x);
    onednn_.Multiply({true, false, s.width(), s.in, rows, s.arithmetic}, k.gates, w.x, nullptr,
                     to.i2h_weight);
  }
  if (to.i2h_bias != nullptr) SumRows(k.gates, to.i2h_bias, rows, s.width());
  if (to.h2h_bias == nullptr) return;
  if (to.i2h_bias != nullptr && !IsGru(s)) {
    CopyOrZero(to.i2h_bias, to.h2h_bias, s.width());
  } else {
    SumRows(products, to.h2h_bias, rows, s.width());
  }
}

void Recurrent::BackwardInput(const RecurrentShape& s, const RecurrentInputs& in, const float* kept,
                              float* work, float* grad_x) {
  ReadLengths(s, in.lengths);
  onednn_.Multiply({false, false, s.steps * s.batch, s.in, s.width(), s.arithmetic}, kept, in.i2h_weight,
                   nullptr, work);
  ToBatchFirst(s, work, s.in, grad_x);
}

}  // namespace sluice::cpu
