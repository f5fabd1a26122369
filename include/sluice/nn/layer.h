// What a layer is: sluice/nn.h.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/ndarray.h"
#include "sluice/parameter.h"

namespace sluice::nn {

class Layer {
 public:
  virtual ~Layer() = default;
  Layer(Layer&&) = default;
  Layer& operator=(Layer&&) = default;

  // Recorded inside autograd::RecordScope.
  virtual NDArray Forward(const NDArray& x) = 0;
  NDArray operator()(const NDArray& x) { return Forward(x); }

  // Its own parameters and its children's, in the order of the forward, with full names ("conv1.weight"). One
  // that several layers share is there once.
  virtual ParameterDict CollectParams() const = 0;
  // "conv1"; set by the container it is added to, before Initialize.
  const std::string& name() const { return name_; }
  virtual std::string_view kind() const = 0;  // "Conv2D"
  // Puts `prefix` and a dot before its name and those of all inside it.
  virtual void AddPrefix(const std::string& prefix);

 protected:
  Layer() = default;
  // "conv1 (Conv2D)", where it is printed.
  struct Description {
    std::string_view name, kind;
    friend std::ostream& operator<<(std::ostream& out, const Description& layer) {
      return layer.name.empty() ? out << layer.kind : out << layer.name << " (" << layer.kind << ')';
    }
  };
  Description Describe() const { return {name_, kind()}; }

 private:
  std::string name_;
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

  // Its parameter `name` ("weight") becomes `parameter`, which another layer made and names: one array, whose
  // gradient is the sum over its uses and which a Trainer steps once.
  //
  //   decoder.ShareParameter("weight", embedding.CollectParams().Find("embedding.weight"));
  //
  // Error(kNotFound) when it has none called that, Error(kInvalidArgument) for null or where the shapes
  // differ, Error(kFailedPrecondition) after Initialize.
  void ShareParameter(std::string_view name, std::shared_ptr<Parameter> parameter);
  // All of them, in order: of another layer of this kind.
  void ShareParameters(const ParameterLayer& other);

 protected:
  ParameterLayer() = default;
  void AddParameter(std::string name, const Shape& shape, ParameterOptions options = {});
  size_t num_parameters() const { return slots_.size(); }
  // In the order they were added.
  Parameter& parameter(size_t i) const {
    if (i >= slots_.size()) [[unlikely]]
      ThrowNoParameter(i);
    return *slots_[i].parameter;
  }

 private:
  struct Slot {
    std::string name;  // within the layer
    std::shared_ptr<Parameter> parameter;
    bool shared = false;  // another layer names it
  };
  [[noreturn]] void ThrowNoParameter(size_t i) const;  // Error(kFailedPrecondition)
  void Share(Slot& slot, std::shared_ptr<Parameter> parameter);

  std::vector<Slot> slots_;
};

// A layer with weight and bias: what dense layers and convolutions share.
class WeightedLayer : public ParameterLayer {
 public:
  Parameter& weight() const { return parameter(0); }
  Parameter* bias() const { return num_parameters() > 1 ? &parameter(1) : nullptr; }  // null without one

 protected:
  WeightedLayer(const Shape& weight_shape, int64_t bias_size, bool use_bias);
  // The arrays on x's context, in float32; an empty one for no bias. Fills in the input size.
  NDArray WeightFor(const NDArray& x, const Shape& weight_shape);
  NDArray BiasFor(const NDArray& x);
};

}  // namespace sluice::nn
