// Recurrent layers of sequences [batch, steps, in]: sluice/nn.h.
#pragma once

#include <memory>
#include <vector>

#include "sluice/nn/layer.h"
#include "sluice/ops.h"

namespace sluice::nn {

struct RecurrentOptions {
  int64_t num_layers = 1;      // on top of each other: each takes the outputs of the one below
  bool bidirectional = false;  // each layer in both directions; outputs side by side, [..., 2 hidden]
  double dropout = 0;          // of each layer's outputs but the last one's, as nn::Dropout
  int64_t input_size = 0;      // 0: from the first input
  // Null: the one handed to Initialize; of biases Zero.
  std::shared_ptr<const Initializer> i2h_weight_init, h2h_weight_init, i2h_bias_init, h2h_bias_init;
};

// What Rnn, Lstm and Gru share. Formulas: sluice/ops.h.
//
// Parameters of layer k, as Gluon's: "l<k>_i2h_weight" [gates hidden, in], "l<k>_h2h_weight" [gates hidden,
// hidden], "l<k>_i2h_bias" and "l<k>_h2h_bias" [gates hidden] (no weight decay), of the reverse direction
// "r<k>_...". Gates lie as PyTorch's and Gluon's do, so that weights of those load as they are: i f g o of
// Lstm, r z n of Gru.
class RecurrentLayer : public ParameterLayer {
 public:
  struct Output {
    NDArray outputs;  // [batch, steps, hidden], twice as wide when bidirectional
    // After each sequence's last step, [num_layers, batch, hidden] each, `cell` of Lstm only; when
    // bidirectional [2 num_layers, batch, hidden], a layer's two directions one after the other.
    NDArray hidden, cell;
    std::vector<NDArray> states() const;  // those of the two that there are, as Forward takes them
  };
  // The outputs of all steps, beginning with states of zeros.
  NDArray Forward(const NDArray& x) override;
  // `states`: what to begin with, as Output::states gives them, on x's context; empty: zeros. `lengths`
  // [batch]: how many steps each sequence has, the rest being padding (sluice/ops.h: RecurrentOptions); none:
  // all. Language models hand on `states()[i].Detach()` from piece to piece of a text (truncated
  // backpropagation).
  Output Forward(const NDArray& x, const std::vector<NDArray>& states, const NDArray& lengths = {});
  // Zeros for `batch` sequences.
  std::vector<NDArray> BeginState(int64_t batch, Context context = cpu(0)) const;

 protected:
  enum class Cell : uint8_t { kRnnTanh, kRnnRelu, kLstm, kGru };
  RecurrentLayer(std::string_view kind, Cell cell, int64_t hidden, RecurrentOptions options);

 private:
  struct States;
  int64_t Directions() const { return options_.bidirectional ? 2 : 1; }
  Shape StateShape(int64_t batch) const { return {options_.num_layers * Directions(), batch, hidden_}; }
  void RequireInput(const NDArray& x) const;
  void RequireStates(const std::vector<NDArray>& states, int64_t batch) const;
  NDArray Run(const NDArray& x, const std::vector<NDArray>& states, const NDArray& lengths, States* last);
  ops::RecurrentResult RunOne(int64_t layer, int64_t direction, const NDArray& x,
                              const std::vector<NDArray>& states, const NDArray& lengths);

  Cell cell_;
  int64_t hidden_;
  RecurrentOptions options_;
};

// The simple recurrent network (Elman 1990). Gluon's default activation is relu, PyTorch's tanh: here it is
// named.
class Rnn final : public RecurrentLayer {
 public:
  Rnn(int64_t hidden, ops::RnnActivation activation, RecurrentOptions options = {});
  std::string_view kind() const override { return "Rnn"; }
};

// Long short-term memory (Hochreiter, Schmidhuber 1997, with forget gates).
class Lstm final : public RecurrentLayer {
 public:
  explicit Lstm(int64_t hidden, RecurrentOptions options = {});
  std::string_view kind() const override { return "Lstm"; }
};

// The gated recurrent unit (Cho et al. 2014, with the reset gate behind the product, as in cuDNN).
class Gru final : public RecurrentLayer {
 public:
  explicit Gru(int64_t hidden, RecurrentOptions options = {});
  std::string_view kind() const override { return "Gru"; }
};

// The last step of a sequence: [batch, steps, ...] -> [batch, ...]. Of padded sequences, and of a reverse
// direction, whose last outputs have seen one step only, take RecurrentLayer::Output::hidden.
class SequenceLast final : public PlainLayer {
 public:
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "SequenceLast"; }
};

}  // namespace sluice::nn
