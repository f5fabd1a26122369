// The recurrent layers: layers and directions put together from ops::Recurrent, which runs one of each.
//
// Parameters lie in the order of layers, then directions, then kParts: i2h_weight, h2h_weight, i2h_bias,
// h2h_bias. States are stacked in the same order, [layers * directions, batch, hidden]. Forward checks its
// arguments, so that errors name the layer, and runs on the caller's thread.
#include "sluice/nn/recurrent.h"

#include "autograd/ops.h"
#include "base/inline_vector.h"
#include "base/log.h"
#include "nn/drop.h"
#include "nn/require.h"

namespace sluice::nn {
namespace {

constexpr int64_t kParts = 4;  // parameters of one layer in one direction: two weights, two biases

// Returns the state [batch, hidden] as [1, batch, hidden].
NDArray AsOneOfMany(const NDArray& state) {
  return ops::Reshape(state, {1, state.shape()[0], state.shape()[1]});
}

using StateList = InlineVector<NDArray, 4>;

NDArray Stack(const StateList& states) {
  return states.size() == 1 ? states[0] : ops::Concat(states, 0);
}

}  // namespace

// The states of all layers and directions, [1, batch, hidden] each.
struct RecurrentLayer::States {
  StateList hidden, cell;
};

RecurrentLayer::RecurrentLayer(std::string_view kind, Cell cell, int64_t hidden, RecurrentOptions options)
    : cell_(cell), hidden_(hidden), options_(std::move(options)) {
  RequireAtLeast(StrCat(kind, ": the number of hidden units"), hidden, 1);
  RequireAtLeast(StrCat(kind, ": num_layers"), options_.num_layers, 1);
  RequireAtLeast(StrCat(kind, ": input_size"), options_.input_size, 0);
  RequireRate(StrCat(kind, ": the dropout"), options_.dropout);
  if (options_.carries_state && options_.bidirectional)
    ThrowInvalid(
        StrCat(kind, ": a bidirectional layer carries no state: its reverse direction begins at the end"));
  const int64_t rows = hidden * (cell == Cell::kLstm ? 4 : (cell == Cell::kGru ? 3 : 1));
  const auto zero = std::make_shared<const Zero>();
  const auto weight = [&](const std::string& name, int64_t columns, const auto& init) {
    AddParameter(name, {rows, columns}, {.init = init});
  };
  const auto bias = [&](const std::string& name, const auto& init) {
    AddParameter(name, Shape{rows}, {.wd_mult = 0, .init = init != nullptr ? init : zero});
  };
  for (int64_t layer = 0; layer < options_.num_layers; ++layer) {
    for (int64_t direction = 0; direction < Directions(); ++direction) {
      const std::string prefix = StrCat(direction == 0 ? 'l' : 'r', layer, '_');
      weight(prefix + "i2h_weight", layer == 0 ? options_.input_size : hidden * Directions(),
             options_.i2h_weight_init);
      weight(prefix + "h2h_weight", hidden, options_.h2h_weight_init);
      bias(prefix + "i2h_bias", options_.i2h_bias_init);
      bias(prefix + "h2h_bias", options_.h2h_bias_init);
    }
  }
}

NDArray RecurrentLayer::Forward(const NDArray& x) {
  RequireInput(x);
  if (!options_.carries_state) return Run(x, {}, {}, nullptr);
  const Carrier carrier{x.context(), autograd::IsTraining(), autograd::CurrentDraw().first_sample};
  const auto [place, is_new] = carried_.try_emplace(carrier);
  std::vector<NDArray>& states = place->second;
  if (carrier.training && !set_.empty()) {
    if (is_new) {
      states = SetStatesFor(carrier, x.shape()[0]);
    } else {
      set_.clear();  // the first batch is over
    }
  }
  if (!states.empty() && states[0].shape()[1] != x.shape()[0]) states.clear();
  const Output output = Forward(x, states);
  states = output.states();
  for (NDArray& state : states) state = state.Detach();
  return output.outputs;
}

void RecurrentLayer::ForgetStates(bool training) {
  std::erase_if(carried_, [training](const auto& entry) { return entry.first.training == training; });
  if (training) set_.clear();
}

void RecurrentLayer::AddStatesTo(CarriedStates* states) const {
  for (const auto& [carrier, arrays] : carried_) {
    if (!carrier.training) continue;
    for (size_t i = 0; i < arrays.size(); ++i)
      (*states)[StrCat(name(), '/', carrier.first_sample, '/', i)] = arrays[i];
  }
}

void RecurrentLayer::SetStates(const CarriedStates& states) {
  ForgetStates(/*training=*/true);
  const std::string own = name() + '/';
  for (const auto& [entry, array] : states) {
    if (!entry.starts_with(own) || array.shape().ndim() != 3 || array.dtype() != DType::kFloat32) continue;
    const std::vector<std::string> parts = StrSplit(std::string_view(entry).substr(own.size()), '/');
    const auto first_sample = parts.size() == 2 ? ParseInt(parts[0]) : std::nullopt;
    if (first_sample && *first_sample >= 0) set_[static_cast<uint64_t>(*first_sample)].push_back(array);
  }
}

// Returns the states that were set for `batch` samples from the carrier's place on, which may lie in several
// of the parts that were set; none, with a warning, where some are missing.
std::vector<NDArray> RecurrentLayer::SetStatesFor(const Carrier& carrier, int64_t batch) {
  const autograd::PauseScope pause;
  std::vector<std::vector<NDArray>> parts(cell_ == Cell::kLstm ? 2 : 1);
  const uint64_t end = carrier.first_sample + static_cast<uint64_t>(batch);
  for (uint64_t at = carrier.first_sample; at < end;) {
    auto part = set_.upper_bound(at);
    const bool found = part != set_.begin() && (--part)->second.size() == parts.size() &&
                       at - part->first < static_cast<uint64_t>(part->second[0].shape()[1]);
    if (!found) {
      LOG(WARNING) << WrapLogged(StrCat(Describe(), ": there are no states for place ", at,
                                        " of the batch, so that ", batch, " places from ",
                                        carrier.first_sample, " on begin with zeros"));
      return {};
    }
    const auto begin = static_cast<int64_t>(at - part->first);
    const int64_t last = std::min(part->second[0].shape()[1], begin + static_cast<int64_t>(end - at));
    for (size_t i = 0; i < parts.size(); ++i)
      parts[i].push_back(ops::Slice(part->second[i].AsInContext(carrier.context), 1, begin, last));
    at += static_cast<uint64_t>(last - begin);
  }
  std::vector<NDArray> states;
  for (const std::vector<NDArray>& of_kind : parts) states.push_back(ops::Concat(of_kind, 1));
  return states;
}

RecurrentLayer::Output RecurrentLayer::Forward(const NDArray& x, const ArrayList& states,
                                               const NDArray& lengths) {
  RequireInput(x);
  RequireStates(states.arrays(), x.shape()[0]);
  if (lengths.valid() && lengths.shape() != Shape({x.shape()[0]})) {
    ThrowInvalid(
        StrCat(Describe(), " expects lengths of shape [", x.shape()[0], "] and got ", lengths.shape()));
  }
  States last;
  Output output{.outputs = Run(x, states.arrays(), lengths, &last), .hidden = {}, .cell = {}};
  output.hidden = Stack(last.hidden);
  if (cell_ == Cell::kLstm) output.cell = Stack(last.cell);
  return output;
}

RecurrentLayer::Output RecurrentLayer::Step(const NDArray& x, const ArrayList& states) {
  if (options_.bidirectional)
    ThrowInvalid(StrCat(Describe(), " is bidirectional: its reverse direction has no next step"));
  RequireArrayFor(Describe(), "its input", x);
  const Shape& shape = x.shape();
  if (shape.ndim() != 2)
    ThrowInvalid(StrCat(Describe(), " expects a step of shape [batch, input_size] and got ", shape));
  Output output = Forward(ops::Reshape(x, {shape[0], 1, shape[1]}), states);
  output.outputs = ops::Reshape(output.outputs, {shape[0], hidden_});
  return output;
}

std::vector<NDArray> RecurrentLayer::Output::states() const {
  return cell.valid() ? std::vector{hidden, cell} : std::vector{hidden};
}

std::vector<NDArray> RecurrentLayer::BeginState(int64_t batch, Context context) const {
  std::vector<NDArray> states = {NDArray(StateShape(batch), context)};
  if (cell_ == Cell::kLstm) states.emplace_back(StateShape(batch), context);
  return states;
}

void RecurrentLayer::RequireInput(const NDArray& x) const {
  RequireArrayFor(Describe(), "its input", x);
  const Shape& shape = x.shape();
  const int64_t known = parameter(0).shape()[1];
  if (shape.ndim() == 3 && shape[1] > 0 && shape[2] > 0 && (known == 0 || shape[2] == known)) return;
  ThrowInvalid(StrCat(Describe(), " expects input of shape [batch, steps, ",
                      known == 0 ? "input_size" : std::to_string(known), "] and got ", shape));
}

void RecurrentLayer::RequireStates(const std::vector<NDArray>& states, int64_t batch) const {
  const size_t expected = cell_ == Cell::kLstm ? 2 : 1;
  if (!states.empty() && states.size() != expected) {
    ThrowInvalid(StrCat(Describe(), " expects ", expected,
                        expected == 1 ? " state" : " states, hidden and cell,", " or none and got ",
                        states.size()));
  }
  for (const NDArray& state : states) {
    RequireArrayFor(Describe(), "a state", state);
    if (state.shape() != StateShape(batch)) {
      ThrowInvalid(
          StrCat(Describe(), " expects states of shape ", StateShape(batch), " and got ", state.shape()));
    }
  }
}

NDArray RecurrentLayer::Run(const NDArray& x, const std::vector<NDArray>& states, const NDArray& lengths,
                            States* last) {
  NDArray y = x;
  for (int64_t layer = 0; layer < options_.num_layers; ++layer) {
    if (layer > 0) y = Drop(y, options_.dropout, name(), static_cast<uint64_t>(layer));
    const NDArray below = y;
    for (int64_t direction = 0; direction < Directions(); ++direction) {
      const ops::RecurrentResult result = RunOne(layer, direction, below, states, lengths);
      y = direction == 0 ? result.outputs : ops::Concat({y, result.outputs}, 2);
      if (last == nullptr) continue;
      last->hidden.push_back(AsOneOfMany(result.last.hidden));
      if (cell_ == Cell::kLstm) last->cell.push_back(AsOneOfMany(result.last.cell));
    }
  }
  return y;
}

ops::RecurrentResult RecurrentLayer::RunOne(int64_t layer, int64_t direction, const NDArray& x,
                                            const std::vector<NDArray>& states, const NDArray& lengths) {
  const int64_t place = layer * Directions() + direction, batch = x.shape()[0];
  const auto part = [&](int64_t which) -> Parameter& {
    return parameter(static_cast<size_t>(place * kParts + which));
  };
  const auto array = [&](int64_t which) { return ops::InFloat32(part(which).data(x.context())); };
  const auto begin = [&](size_t which) {
    if (which >= states.size()) return NDArray();
    return ops::Reshape(ops::Slice(states[which], 0, place, place + 1), {batch, hidden_});
  };
  part(0).SetShape({part(0).shape()[0], x.shape()[2]});
  constexpr RecurrentKind kKinds[] = {RecurrentKind::kRnnTanh, RecurrentKind::kRnnRelu, RecurrentKind::kLstm,
                                      RecurrentKind::kGru};
  return ops::Recurrent(
      kKinds[static_cast<size_t>(cell_)], x,
      {.i2h_weight = array(0), .h2h_weight = array(1), .i2h_bias = array(2), .h2h_bias = array(3)},
      {.hidden = begin(0), .cell = begin(1)}, {.reverse = direction == 1, .lengths = lengths},
      ops::ArithmeticFor(part(0).dtype()));
}

Rnn::Rnn(int64_t hidden, ops::RnnActivation activation, RecurrentOptions options)
    : RecurrentLayer("Rnn", activation == ops::RnnActivation::kTanh ? Cell::kRnnTanh : Cell::kRnnRelu, hidden,
                     std::move(options)) {}

Lstm::Lstm(int64_t hidden, RecurrentOptions options)
    : RecurrentLayer("Lstm", Cell::kLstm, hidden, std::move(options)) {}

Gru::Gru(int64_t hidden, RecurrentOptions options)
    : RecurrentLayer("Gru", Cell::kGru, hidden, std::move(options)) {}

NDArray SequenceLast::Forward(const NDArray& x) {
  const Shape& shape = x.shape();
  if (shape.ndim() < 2 || shape[1] == 0)
    ThrowInvalid(StrCat(Describe(), " expects input of shape [batch, steps, ...] and got ", shape));
  return ops::Reshape(ops::Slice(x, 1, shape[1] - 1, shape[1]), shape.WithoutAxis(1));
}

}  // namespace sluice::nn
