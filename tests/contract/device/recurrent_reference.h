// One recurrent layer in float64, sequence by sequence and step by step: the formulas of sluice/ops.h, and
// the gradients by hand.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tensor/kernels/recurrent.h"

namespace sluice::testing {

using Doubles = std::vector<double>;

// Biases, states and gradients that are empty are null.
struct RecurrentCase {
  RecurrentShape shape;
  std::vector<int64_t> lengths;  // one for each sequence
  Doubles x, i2h_weight, h2h_weight, i2h_bias, h2h_bias, hidden, cell;
  Doubles by_outputs, by_hidden, by_cell;  // the gradients by the results
};

struct RecurrentResults {
  Doubles outputs, hidden, cell;
};
struct RecurrentDerivatives {
  Doubles x, i2h_weight, h2h_weight, i2h_bias, h2h_bias, hidden, cell;
};

class RecurrentReference {
 public:
  explicit RecurrentReference(const RecurrentCase& c)
      : c_(c),
        in_(static_cast<size_t>(c.shape.in)),
        n_(static_cast<size_t>(c.shape.hidden)),
        width_(static_cast<size_t>(c.shape.width())),
        steps_(static_cast<size_t>(c.shape.steps)),
        batch_(static_cast<size_t>(c.shape.batch)) {}

  RecurrentResults Forward() {
    RecurrentResults to{Doubles(batch_ * steps_ * n_), Doubles(batch_ * n_), Doubles(batch_ * n_)};
    for (size_t b = 0; b < batch_; ++b) {
      const std::vector<Step> steps = StepsOf(b);
      for (const Step& step : steps) Write(step.hidden, &to.outputs, (b * steps_ + step.time) * n_);
      Write(steps.empty() ? Row(c_.hidden, b) : steps.back().hidden, &to.hidden, b * n_);
      Write(steps.empty() ? Row(c_.cell, b) : steps.back().cell, &to.cell, b * n_);
    }
    return to;
  }

  RecurrentDerivatives Backward() {
    RecurrentDerivatives to{Doubles(c_.x.size()), Doubles(width_ * in_), Doubles(width_ * n_),
                            Doubles(width_),      Doubles(width_),       Doubles(batch_ * n_),
                            Doubles(batch_ * n_)};
    for (size_t b = 0; b < batch_; ++b) {
      const std::vector<Step> steps = StepsOf(b);
      Doubles by_hidden = Row(c_.by_hidden, b), by_cell = Row(c_.by_cell, b);
      for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
        const Doubles by_output = Row(c_.by_outputs, b * steps_ + step->time);
        for (size_t k = 0; k < n_; ++k) by_hidden[k] += by_output[k];
        StepBackward(*step, (b * steps_ + step->time) * in_, &by_hidden, &by_cell, &to);
      }
      Write(by_hidden, &to.hidden, b * n_);
      Write(by_cell, &to.cell, b * n_);
    }
    return to;
  }

 private:
  struct Step {
    size_t time;
    Doubles a, b;  // W_i2h x_t + b_i2h and W_h2h h_(t-1) + b_h2h
    Doubles hidden_before, cell_before;
    Doubles hidden, cell;  // after the step
  };

  static double Sigmoid(double v) { return 1 / (1 + std::exp(-v)); }
  // Returns row i of [rows, hidden], or zeros for an array that is null.
  Doubles Row(const Doubles& array, size_t i) const {
    if (array.empty()) return Doubles(n_);
    const auto begin = array.begin() + static_cast<ptrdiff_t>(i * n_);
    return {begin, begin + static_cast<ptrdiff_t>(n_)};
  }
  static void Write(const Doubles& row, Doubles* to, size_t at) {
    std::copy(row.begin(), row.end(), to->begin() + static_cast<ptrdiff_t>(at));
  }
  // Returns weight row + bias.
  Doubles Product(const Doubles& weight, const double* row, size_t columns, const Doubles& bias) const {
    Doubles sums = bias.empty() ? Doubles(width_) : bias;
    for (size_t k = 0; k < width_; ++k)
      for (size_t i = 0; i < columns; ++i) sums[k] += weight[k * columns + i] * row[i];
    return sums;
  }

  // Runs a sequence, and returns its steps in the order in which they are taken.
  std::vector<Step> StepsOf(size_t sequence) const {
    std::vector<Step> steps;
    Doubles hidden = Row(c_.hidden, sequence), cell = Row(c_.cell, sequence);
    const auto length = static_cast<size_t>(c_.lengths[sequence]);
    for (size_t p = 0; p < length; ++p) {
      const size_t time = c_.shape.reverse ? length - 1 - p : p;
      Step step{.time = time,
                .a = Product(c_.i2h_weight, c_.x.data() + (sequence * steps_ + time) * in_, in_, c_.i2h_bias),
                .b = Product(c_.h2h_weight, hidden.data(), n_, c_.h2h_bias),
                .hidden_before = hidden,
                .cell_before = cell,
                .hidden = Doubles(n_),
                .cell = Doubles(n_)};
      for (size_t k = 0; k < n_; ++k) Cell(k, &step);
      hidden = step.hidden;
      cell = step.cell;
      steps.push_back(std::move(step));
    }
    return steps;
  }

  void Cell(size_t k, Step* s) const {
    const auto sum = [&](size_t gate) { return s->a[gate * n_ + k] + s->b[gate * n_ + k]; };
    switch (c_.shape.kind) {
      case RecurrentKind::kRnnTanh:
        s->hidden[k] = std::tanh(sum(0));
        break;
      case RecurrentKind::kRnnRelu:
        s->hidden[k] = std::max(sum(0), 0.0);
        break;
      case RecurrentKind::kLstm:
        s->cell[k] = Sigmoid(sum(1)) * s->cell_before[k] + Sigmoid(sum(0)) * std::tanh(sum(2));
        s->hidden[k] = Sigmoid(sum(3)) * std::tanh(s->cell[k]);
        break;
      case RecurrentKind::kGru: {
        const double r = Sigmoid(sum(0)), z = Sigmoid(sum(1));
        const double candidate = std::tanh(s->a[2 * n_ + k] + r * s->b[2 * n_ + k]);
        s->hidden[k] = (1 - z) * candidate + z * s->hidden_before[k];
        break;
      }
    }
  }

  // Replaces the gradients by the states after a step with those by the states before it, and adds to `to`.
  // `x_at` is where the step's row of x begins.
  void StepBackward(const Step& s, size_t x_at, Doubles* by_hidden, Doubles* by_cell,
                    RecurrentDerivatives* to) const {
    Doubles by_a(width_), by_b(width_), before(n_);
    for (size_t k = 0; k < n_; ++k) {
      before[k] = CellBackward(s, k, (*by_hidden)[k], &(*by_cell)[k], &by_a, &by_b);
    }
    for (size_t g = 0; g < width_; ++g) {
      to->i2h_bias[g] += by_a[g];
      to->h2h_bias[g] += by_b[g];
      for (size_t i = 0; i < in_; ++i) {
        to->i2h_weight[g * in_ + i] += by_a[g] * c_.x[x_at + i];
        to->x[x_at + i] += by_a[g] * c_.i2h_weight[g * in_ + i];
      }
      for (size_t i = 0; i < n_; ++i) {
        to->h2h_weight[g * n_ + i] += by_b[g] * s.hidden_before[i];
        before[i] += by_b[g] * c_.h2h_weight[g * n_ + i];
      }
    }
    *by_hidden = before;
  }

  // Sets unit k of the gradients by a and b, replaces that by the cell, and returns the part of the gradient
  // by the hidden state before the step that does not come through b.
  double CellBackward(const Step& s, size_t k, double by_hidden, double* by_cell, Doubles* by_a,
                      Doubles* by_b) const {
    const auto sum = [&](size_t gate) { return s.a[gate * n_ + k] + s.b[gate * n_ + k]; };
    const auto set = [&](size_t gate, double by) { (*by_a)[gate * n_ + k] = (*by_b)[gate * n_ + k] = by; };
    switch (c_.shape.kind) {
      case RecurrentKind::kRnnTanh:
        set(0, by_hidden * (1 - s.hidden[k] * s.hidden[k]));
        return 0;
      case RecurrentKind::kRnnRelu:
        set(0, sum(0) > 0 ? by_hidden : 0);
        return 0;
      case RecurrentKind::kLstm: {
        const double i = Sigmoid(sum(0)), f = Sigmoid(sum(1)), g = std::tanh(sum(2)), o = Sigmoid(sum(3));
        const double t = std::tanh(s.cell[k]), by = *by_cell + by_hidden * o * (1 - t * t);
        set(0, by * g * i * (1 - i));
        set(1, by * s.cell_before[k] * f * (1 - f));
        set(2, by * i * (1 - g * g));
        set(3, by_hidden * t * o * (1 - o));
        *by_cell = by * f;
        return 0;
      }
      case RecurrentKind::kGru:
        break;
    }
    const double r = Sigmoid(sum(0)), z = Sigmoid(sum(1)), b = s.b[2 * n_ + k];
    const double candidate = std::tanh(s.a[2 * n_ + k] + r * b);
    const double by = by_hidden * (1 - z) * (1 - candidate * candidate);
    set(0, by * b * r * (1 - r));
    set(1, by_hidden * (s.hidden_before[k] - candidate) * z * (1 - z));
    (*by_a)[2 * n_ + k] = by;
    (*by_b)[2 * n_ + k] = by * r;
    return by_hidden * z;
  }

  const RecurrentCase& c_;
  const size_t in_, n_, width_, steps_, batch_;
};

}  // namespace sluice::testing
