// Recurrent layers in float64, computed one number at a time.
#pragma once

#include <string>
#include <vector>

#include "unit/nn/reference.h"

namespace sluice::reference {

struct RecurrentNetwork {
  std::string kind;  // "tanh", "relu", "lstm", "gru"
  int64_t in = 1, hidden = 1, layers = 1;
  bool bidirectional = false;
  std::vector<int64_t> lengths = {};  // empty: all steps

  int64_t directions() const { return bidirectional ? 2 : 1; }
  int64_t gates() const { return kind == "lstm" ? 4 : (kind == "gru" ? 3 : 1); }
};

struct RecurrentOutcome {
  Tensor outputs, hidden, cell;
};

inline double SigmoidOf(double x) {
  return 1 / (1 + std::exp(-x));
}

// Computes one step of one sequence in one layer and direction. `w` holds i2h weight, h2h weight,
// i2h bias and h2h bias.
inline void RecurrentStep(const RecurrentNetwork& net, const std::vector<double>& x, const Tensor* const w[4],
                          std::vector<double>* hidden, std::vector<double>* cell) {
  const auto in = static_cast<int64_t>(x.size()), n = net.hidden;
  const auto from = [&](const Tensor& weight, const Tensor& bias, const std::vector<double>& v, int64_t row) {
    double sum = bias.at(row);
    for (size_t i = 0; i < v.size(); ++i)
      sum += weight.at(row * static_cast<int64_t>(v.size()) + static_cast<int64_t>(i)) * v[i];
    return sum;
  };
  EXPECT_EQ(w[0]->shape, (Shape{net.gates() * n, in}));
  const std::vector<double> before = *hidden;
  for (int64_t u = 0; u < n; ++u) {
    const auto a = [&](int64_t gate) { return from(*w[0], *w[2], x, gate * n + u); };
    const auto b = [&](int64_t gate) { return from(*w[1], *w[3], before, gate * n + u); };
    double &h = (*hidden)[static_cast<size_t>(u)], &c = (*cell)[static_cast<size_t>(u)];
    if (net.kind == "tanh") h = std::tanh(a(0) + b(0));
    if (net.kind == "relu") h = std::max(a(0) + b(0), 0.0);
    if (net.kind == "lstm") {
      c = SigmoidOf(a(1) + b(1)) * c + SigmoidOf(a(0) + b(0)) * std::tanh(a(2) + b(2));
      h = SigmoidOf(a(3) + b(3)) * std::tanh(c);
    }
    if (net.kind == "gru") {
      const double z = SigmoidOf(a(1) + b(1)), fresh = std::tanh(a(2) + SigmoidOf(a(0) + b(0)) * b(2));
      h = (1 - z) * fresh + z * h;
    }
  }
}

// Runs the network. `inputs` are x, then four parameters for each layer and direction, then optionally the
// initial hidden state, then optionally the initial cell state.
inline RecurrentOutcome Run(const RecurrentNetwork& net, const std::vector<Tensor>& inputs) {
  const int64_t batch = inputs[0].shape[0], steps = inputs[0].shape[1], n = net.hidden, d = net.directions();
  const auto state = static_cast<size_t>(1 + 4 * net.layers * d);
  const Shape states{net.layers * d, batch, n};
  RecurrentOutcome outcome{Tensor({batch, steps, n * d}), Tensor(states), Tensor(states)};
  Tensor x = inputs[0];
  for (int64_t layer = 0; layer < net.layers; ++layer) {
    Tensor y({batch, steps, n * d});
    const int64_t in = x.shape[2];
    for (int64_t place = layer * d; place < layer * d + d; ++place) {
      const bool reverse = place % d == 1;
      const Tensor* weights[4];
      for (int64_t i = 0; i < 4; ++i) weights[i] = &inputs[static_cast<size_t>(1 + place * 4 + i)];
      for (int64_t row = 0; row < batch; ++row) {
        std::vector<double> hidden(static_cast<size_t>(n)), cell(hidden);
        const int64_t length = net.lengths.empty() ? steps : net.lengths[static_cast<size_t>(row)];
        const auto at = [&](int64_t u) { return (place * batch + row) * n + u; };
        for (int64_t u = 0; u < n; ++u) {
          if (inputs.size() > state) hidden[static_cast<size_t>(u)] = inputs[state].at(at(u));
          if (inputs.size() > state + 1) cell[static_cast<size_t>(u)] = inputs[state + 1].at(at(u));
        }
        for (int64_t i = 0; i < length; ++i) {
          const int64_t time = reverse ? length - 1 - i : i;
          const auto first = x.values.begin() + (row * steps + time) * in;
          RecurrentStep(net, std::vector<double>(first, first + in), weights, &hidden, &cell);
          for (int64_t u = 0; u < n; ++u)
            y.at((row * steps + time) * n * d + place % d * n + u) = hidden[static_cast<size_t>(u)];
        }
        for (int64_t u = 0; u < n; ++u) {
          outcome.hidden.at(at(u)) = hidden[static_cast<size_t>(u)];
          outcome.cell.at(at(u)) = cell[static_cast<size_t>(u)];
        }
      }
    }
    x = y;
  }
  outcome.outputs = x;
  return outcome;
}

}  // namespace sluice::reference
