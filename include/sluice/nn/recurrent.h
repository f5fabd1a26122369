// Recurrent layers for sequences [batch, steps, in]; see sluice/nn.h.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "sluice/array_list.h"
#include "sluice/nn/layer.h"
#include "sluice/ops.h"

namespace sluice::nn {

struct RecurrentOptions {
  int64_t num_layers = 1;      // number of stacked layers: each takes the outputs of the one below
  bool bidirectional = false;  // layers run in both directions; outputs are side by side, [..., 2 hidden]
  double dropout = 0;          // rate, as in nn::Dropout, for the outputs of each layer but the last
  int64_t input_size = 0;      // 0: taken from the first input
  // Whether Forward(x) begins with the states in which the forward before has ended, without their gradients,
  // in place of zeros: truncated back-propagation through a long text, whose next piece each batch holds
  // (ContinuousText). Each context and each place in the batch has states of its own; so have forwards in
  // training and others. A batch of another size begins with zeros, and so does one after
  // Layer::ForgetStates. Checkpoints that Fit saves within an epoch hold them. Bidirectional layers carry
  // none.
  bool carries_state = false;
  // The initialisers. Null means, for weights, the one that is passed to Initialize, and for biases Zero.
  std::shared_ptr<const Initializer> i2h_weight_init, h2h_weight_init, i2h_bias_init, h2h_bias_init;
};

// The base of Rnn, Lstm and Gru. sluice/ops.h has the formulas.
//
// The parameters of layer k have the names of Gluon: "l<k>_i2h_weight" [gates hidden, in], "l<k>_h2h_weight"
// [gates hidden, hidden], "l<k>_i2h_bias" and "l<k>_h2h_bias" [gates hidden] (without weight decay), and
// "r<k>_..." for the reverse direction. The gates are in the order of PyTorch and Gluon, i f g o in Lstm and
// r z n in Gru, so that weights of these load unchanged.
class RecurrentLayer : public ParameterLayer {
 public:
  struct Output {
    NDArray outputs;  // [batch, steps, hidden], twice as wide when bidirectional
    // The states after each sequence's last step, [num_layers, batch, hidden] each. Bidirectional layers have
    // [2 num_layers, batch, hidden], the two directions of a layer one after the other. Only an Lstm has
    // `cell`.
    NDArray hidden, cell;
    std::vector<NDArray> states() const;  // {hidden} or {hidden, cell}, as Forward takes them
  };
  // Returns the outputs of all steps; the initial states are zeros unless the layer carries states.
  NDArray Forward(const NDArray& x) override;
  void ForgetStates(bool training) override;
  bool CarriesStates() const override { return options_.carries_state; }
  void AddStatesTo(CarriedStates* states) const override;
  // Forgets the states of training, and takes those of its name. The first batch begins with them, however it
  // is divided over devices and forwards; places for which there are none begin with zeros, and the log says
  // so.
  void SetStates(const CarriedStates& states) override;
  // Begins with `states`, on x's context, as Output::states returns them; empty means zeros. `lengths`
  // [batch] is the number of steps of each sequence, after which x holds padding (ops::RecurrentOptions); if
  // it is omitted, sequences have all steps. Language models pass `states()[i].Detach()` from one piece of a
  // text to the next (truncated backpropagation).
  Output Forward(const NDArray& x, const ArrayList& states, const NDArray& lengths = {});
  // Takes one step, as Gluon's cells do: x is [batch, in], and so Output::outputs is [batch, hidden]. A loop
  // of steps that hands on states() gives what Forward gives for the sequence. Throws Error(kInvalidArgument)
  // for a bidirectional layer.
  Output Step(const NDArray& x, const ArrayList& states = {});
  // Returns states of zeros for `batch` sequences.
  std::vector<NDArray> BeginState(int64_t batch, Context context = cpu(0)) const;

 protected:
  enum class Cell : uint8_t { kRnnTanh, kRnnRelu, kLstm, kGru };
  RecurrentLayer(std::string_view kind, Cell cell, int64_t hidden, RecurrentOptions options);

 private:
  struct States;
  // Names the states that a forward begins with.
  struct Carrier {
    Context context;
    bool training;
    uint64_t first_sample;  // its place in the batch of all devices and workers
    auto operator<=>(const Carrier&) const = default;
  };

  int64_t Directions() const { return options_.bidirectional ? 2 : 1; }
  Shape StateShape(int64_t batch) const { return {options_.num_layers * Directions(), batch, hidden_}; }
  void RequireInput(const NDArray& x) const;
  void RequireStates(const std::vector<NDArray>& states, int64_t batch) const;
  NDArray Run(const NDArray& x, const std::vector<NDArray>& states, const NDArray& lengths, States* last);
  std::vector<NDArray> SetStatesFor(const Carrier& carrier, int64_t batch);
  ops::RecurrentResult RunOne(int64_t layer, int64_t direction, const NDArray& x,
                              const std::vector<NDArray>& states, const NDArray& lengths);

  Cell cell_;
  int64_t hidden_;
  RecurrentOptions options_;
  std::map<Carrier, std::vector<NDArray>> carried_;
  std::map<uint64_t, std::vector<NDArray>> set_;  // by first sample: what SetStates was given
};

// The simple recurrent network (Elman 1990). Gluon's default activation is relu, PyTorch's is tanh; here it
// must be given.
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

// The gated recurrent unit (Cho et al. 2014, with the reset gate after the product, as in cuDNN).
class Gru final : public RecurrentLayer {
 public:
  explicit Gru(int64_t hidden, RecurrentOptions options = {});
  std::string_view kind() const override { return "Gru"; }
};

// The last step of a sequence: [batch, steps, ...] -> [batch, ...]. For padded sequences, and for a reverse
// direction, whose last output depends on one step only, use RecurrentLayer::Output::hidden instead.
class SequenceLast final : public PlainLayer {
 public:
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "SequenceLast"; }
};

}  // namespace sluice::nn
