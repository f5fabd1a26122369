// The base classes of layers; see sluice/nn.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/ndarray.h"
#include "sluice/parameter.h"

namespace sluice::nn {

// States that layers carry in training, such as "layer0/16/1": the layer's name, the place of the sequences
// in the batch, and the number of the state.
using CarriedStates = std::map<std::string, NDArray>;

class Layer {
 public:
  virtual ~Layer() = default;
  Layer(Layer&&) = default;
  Layer& operator=(Layer&&) = default;

  // Computes the output for `x`. The operations are recorded inside autograd::RecordScope.
  virtual NDArray Forward(const NDArray& x) = 0;
  NDArray operator()(const NDArray& x) { return Forward(x); }

  // Returns the layer's own parameters and those of its children, in the order of the forward, with full
  // names ("conv1.weight"). A parameter that several layers share is included once.
  virtual ParameterDict CollectParams() const = 0;
  // The layer's name, such as "conv1". The container to which the layer is added sets it, before Initialize.
  const std::string& name() const { return name_; }
  virtual std::string_view kind() const = 0;  // such as "Conv2D"
  // The group of layers that a Placement puts on one context (sluice/nn/placement.h); empty unless SetGroup
  // has been called.
  const std::string& group() const { return group_; }
  void SetGroup(std::string group) { group_ = std::move(group); }
  // Forgets the states that layers carry from one forward to the next (RecurrentOptions::carries_state):
  // those of forwards in training, or the others. Fit calls it when an epoch begins, Evaluate when it does.
  virtual void ForgetStates(bool /*training*/) {}
  // Returns whether the layer, or one inside it, carries states; checkpoints within an epoch then hold them.
  virtual bool CarriesStates() const { return false; }
  // Adds the states that forwards in training have left.
  virtual void AddStatesTo(CarriedStates* /*states*/) const {}
  // Makes these the states with which the next forwards in training begin.
  virtual void SetStates(const CarriedStates& /*states*/) {}
  // Puts `prefix` and a dot before the names of the layer and of all layers and parameters inside it.
  virtual void AddPrefix(const std::string& prefix);

 protected:
  Layer() = default;
  // The layer as messages name it: "conv1 (Conv2D)".
  struct Description {
    std::string_view name, kind;
    friend std::ostream& operator<<(std::ostream& out, const Description& layer) {
      return layer.name.empty() ? out << layer.kind : out << layer.name << " (" << layer.kind << ')';
    }
  };
  Description Describe() const { return {name_, kind()}; }

 private:
  std::string name_, group_;
};

// A layer without parameters.
class PlainLayer : public Layer {
 public:
  ParameterDict CollectParams() const override { return {}; }
};

// A layer with parameters of its own.
class ParameterLayer : public Layer {
 public:
  ParameterDict CollectParams() const override;
  void AddPrefix(const std::string& prefix) override;

  // Replaces the layer's parameter `name` ("weight") by `parameter`, which another layer has made and named.
  // Both layers then use one array, whose gradient is the sum over its uses and which a Trainer updates once.
  //
  //   decoder.ShareParameter("weight", embedding.CollectParams().Find("embedding.weight"));
  //
  // Throws Error(kNotFound) if the layer has no such parameter, Error(kInvalidArgument) for null or if shapes
  // or types differ, Error(kFailedPrecondition) after Initialize.
  void ShareParameter(std::string_view name, std::shared_ptr<Parameter> parameter);
  // Shares all parameters of another layer of the same kind, in order.
  void ShareParameters(const ParameterLayer& other);

 protected:
  ParameterLayer() = default;
  void AddParameter(std::string name, const Shape& shape, ParameterOptions options = {});
  size_t num_parameters() const { return slots_.size(); }
  // Returns the i-th parameter, in the order of AddParameter.
  Parameter& parameter(size_t i) const {
    if (i >= slots_.size()) [[unlikely]]
      ThrowNoParameter(i);
    return *slots_[i].parameter;
  }

 private:
  struct Slot {
    std::string name;  // within the layer
    std::shared_ptr<Parameter> parameter;
    bool shared = false;  // whether another layer has named it
  };
  [[noreturn]] void ThrowNoParameter(size_t i) const;  // throws Error(kFailedPrecondition)
  void Share(Slot& slot, std::shared_ptr<Parameter> parameter);

  std::vector<Slot> slots_;
};

// A layer with a weight and a bias: the base of dense layers and convolutions.
class WeightedLayer : public ParameterLayer {
 public:
  Parameter& weight() const { return parameter(0); }
  Parameter* bias() const { return num_parameters() > 1 ? &parameter(1) : nullptr; }  // null if there is none

 protected:
  WeightedLayer(const Shape& weight_shape, int64_t bias_size, bool use_bias);
  // Return weight and bias on x's context, in float32; BiasFor returns NDArray() if there is no bias.
  // WeightFor also fills in the input size.
  NDArray WeightFor(const NDArray& x, const Shape& weight_shape);
  NDArray BiasFor(const NDArray& x);
};

}  // namespace sluice::nn
