// Helpers that the tests of recurrent layers share.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "sluice/nn.h"
#include "unit/nn/recurrent_reference.h"

namespace sluice::nn {

using reference::RecurrentNetwork;

inline std::unique_ptr<RecurrentLayer> Make(const RecurrentNetwork& net, double dropout = 0) {
  const RecurrentOptions options{
      .num_layers = net.layers, .bidirectional = net.bidirectional, .dropout = dropout};
  if (net.kind == "lstm") return std::make_unique<Lstm>(net.hidden, options);
  if (net.kind == "gru") return std::make_unique<Gru>(net.hidden, options);
  return std::make_unique<Rnn>(
      net.hidden, net.kind == "tanh" ? ops::RnnActivation::kTanh : ops::RnnActivation::kRelu, options);
}

inline NDArray ToLengths(const std::vector<int64_t>& lengths) {
  return lengths.empty()
             ? NDArray()
             : NDArray::From(std::span<const int64_t>(lengths), {static_cast<int64_t>(lengths.size())});
}

// The parameter of these tests is the kind of layer: "tanh", "relu", "lstm" or "gru".
class RecurrentTest : public ::testing::TestWithParam<const char*> {
 protected:
  int64_t From(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(most - least + 1)));
  }
  bool Maybe() { return rng_.Below(2) == 0; }
  bool IsLstm() const { return GetParam() == std::string("lstm"); }
  Rng rng_{7};
};
}  // namespace sluice::nn
