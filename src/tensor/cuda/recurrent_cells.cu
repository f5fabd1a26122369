// The cells of recurrent layers: a thread computes one element of a sequence's state, by the formulas of
// formulas/cells.h, or copies one between the two orders of axes. It owns nothing: recurrent.cc, which calls
// it in work on the stream, has the memory. Invariants: a thread reads and writes the gates of its own
// element only, so that values take the place of sums; a sequence keeps its state in steps beyond its length.
#include "tensor/cuda/input_check.cuh"
#include "tensor/cuda/map.cuh"
#include "tensor/cuda/recurrent_cells.h"
#include "tensor/formulas/activation.h"
#include "tensor/formulas/cells.h"
#include "tensor/with_numbers.h"

namespace sluice::cuda {
namespace {

namespace f = formulas;

template <typename Length>
struct ReadLengthOp {
  const Length* lengths;
  int64_t steps;
  InputCheck check;
  __device__ int64_t operator()(int64_t row) const {
    const int64_t length = ReadWhole(check, BadInputKind::kLength, lengths, row, steps + 1, steps);
    return length < 0 ? 0 : length;
  }
};

// Positions are times, or times from the end; it is its own inverse.
__device__ int64_t TimeOf(const Sequences& s, int64_t position) {
  return s.reverse ? s.steps - 1 - position : position;
}
__device__ bool Runs(const Sequences& s, int64_t row, int64_t time) {
  return s.lengths == nullptr || time < s.lengths[row];
}

struct ToTimeFirstOp {
  Sequences s;
  const float* from;
  int64_t columns;
  __device__ float operator()(int64_t i) const {
    const int64_t row = i / columns % s.batch, time = TimeOf(s, i / columns / s.batch);
    return Runs(s, row, time) ? from[(row * s.steps + time) * columns + i % columns] : 0.0f;
  }
};
struct ToBatchFirstOp {
  Sequences s;
  const float* from;
  int64_t columns;
  __device__ float operator()(int64_t i) const {
    const int64_t time = i / columns % s.steps, row = i / columns / s.steps;
    return Runs(s, row, time) ? from[(TimeOf(s, time) * s.batch + row) * columns + i % columns] : 0.0f;
  }
};

struct ForwardOp {
  RecurrentStep a;
  __device__ void operator()(int64_t at) const {
    const int64_t n = a.hidden, row = at / n, k = at % n;
    if (!Runs(a.sequences, row, TimeOf(a.sequences, a.position))) {
      a.after[at] = a.before[at];
      if (a.kind == RecurrentKind::kLstm) a.cell_after[at] = a.cell_before[at];
      return;
    }
    switch (a.kind) {
      case RecurrentKind::kRnnTanh:
        a.after[at] = f::Tanh(a.gates[at]);
        return;
      case RecurrentKind::kRnnRelu:
        a.after[at] = f::Relu(a.gates[at]);
        return;
      case RecurrentKind::kLstm:
        return Lstm(a.gates + row * 4 * n + k, at);
      case RecurrentKind::kGru:
        return Gru(a.gates + row * 3 * n + k, a.products + row * 3 * n + k, at);
    }
  }

 private:
  __device__ void Lstm(float* gates, int64_t at) const {
    const int64_t n = a.hidden;
    const f::LstmCell c = f::LstmOf(gates[0], gates[n], gates[2 * n], gates[3 * n], a.cell_before[at]);
    gates[0] = c.i;
    gates[n] = c.f;
    gates[2 * n] = c.g;
    gates[3 * n] = c.o;
    a.cell_after[at] = c.cell;
    a.after[at] = c.hidden;
  }
  __device__ void Gru(float* gates, const float* products, int64_t at) const {
    const int64_t n = a.hidden;
    const float by_n = products[2 * n];
    const f::GruCell c =
        f::GruOf(gates[0], gates[n], gates[2 * n], products[0], products[n], by_n, a.before[at]);
    gates[0] = c.r;
    gates[n] = c.z;
    gates[2 * n] = c.n;
    a.candidate[at] = by_n;
    a.after[at] = c.hidden;
  }
};

struct BackwardOp {
  RecurrentStep a;
  const float* by_outputs;
  float *grad, *grad_cell;
  int gates;
  __device__ void operator()(int64_t at) const {
    const int64_t n = a.hidden, row = at / n, k = at % n, time = TimeOf(a.sequences, a.position);
    float* const own = a.gates + row * gates * n + k;
    if (!Runs(a.sequences, row, time)) {
      for (int gate = 0; gate < gates; ++gate) own[gate * n] = 0;
      if (a.kind != RecurrentKind::kGru) return;
      for (int gate = 0; gate < gates; ++gate) a.products[(row * gates + gate) * n + k] = 0;
      return;
    }
    float g = grad[at];
    if (by_outputs != nullptr) g += by_outputs[(row * a.sequences.steps + time) * n + k];
    grad[at] = 0;
    switch (a.kind) {
      case RecurrentKind::kRnnTanh:
        own[0] = f::TanhGradient(a.after[at], g);
        return;
      case RecurrentKind::kRnnRelu:
        own[0] = f::ReluGradient(a.after[at], g);
        return;
      case RecurrentKind::kLstm:
        return Lstm(own, at, g);
      case RecurrentKind::kGru:
        return Gru(own, a.products + row * gates * n + k, at, g);
    }
  }

 private:
  __device__ void Lstm(float* own, int64_t at, float g) const {
    const int64_t n = a.hidden;
    const f::LstmGradients to = f::LstmGradientsOf(own[0], own[n], own[2 * n], own[3 * n], a.cell_before[at],
                                                   a.cell_after[at], g, grad_cell[at]);
    own[0] = to.i;
    own[n] = to.f;
    own[2 * n] = to.g;
    own[3 * n] = to.o;
    grad_cell[at] = to.cell_before;
  }
  __device__ void Gru(float* own, float* products, int64_t at, float g) const {
    const int64_t n = a.hidden;
    const f::GruGradients to =
        f::GruGradientsOf(own[0], own[n], own[2 * n], a.candidate[at], a.before[at], g);
    own[0] = products[0] = to.r;
    own[n] = products[n] = to.z;
    own[2 * n] = to.n;
    products[2 * n] = to.by_n;
    grad[at] = to.before;
  }
};

}  // namespace

void ReadLengths(cudaStream_t stream, const RecurrentShape& shape, const void* lengths,
                 const InputCheck& check, int64_t* numbers) {
  WithNumbers(shape.length_type, lengths, [&]<typename Length>(const Length* typed) {
    Map(stream, shape.batch, numbers, ReadLengthOp<Length>{typed, shape.steps, check});
  });
}

void ToTimeFirst(cudaStream_t stream, const Sequences& sequences, const float* from, int64_t columns,
                 float* to) {
  Map(stream, sequences.batch * sequences.steps * columns, to, ToTimeFirstOp{sequences, from, columns});
}

void ToBatchFirst(cudaStream_t stream, const Sequences& sequences, const float* from, int64_t columns,
                  float* to) {
  Map(stream, sequences.batch * sequences.steps * columns, to, ToBatchFirstOp{sequences, from, columns});
}

void ForwardStep(cudaStream_t stream, const RecurrentStep& step) {
  ForEach(stream, step.sequences.batch * step.hidden, ForwardOp{step});
}

void BackwardStep(cudaStream_t stream, const RecurrentStep& step, const float* by_outputs, float* grad,
                  float* grad_cell) {
  const int gates = step.kind == RecurrentKind::kLstm ? 4 : (step.kind == RecurrentKind::kGru ? 3 : 1);
  ForEach(stream, step.sequences.batch * step.hidden, BackwardOp{step, by_outputs, grad, grad_cell, gates});
}

}  // namespace sluice::cuda
