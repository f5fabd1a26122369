// Model parallelism: the layers of a network lie on several contexts, and data flows between them.
//
//   nn::Sequential layers;
//   layers.Add("first", nn::Dense(64)).Add("tanh", nn::Activation::Tanh()).Add("last", nn::Dense(10));
//   nn::PlacedSequential net(std::move(layers), nn::Placement::Parse("first=cpu(0),last=cpu(1)"));
//   net.Initialize();
//   NDArray y = net(NDArray({32, 100}));   // each layer computes on its context; y is on cpu(1)
//
// A context works on one batch while another works on the next, since operations are only issued here
// (sluice/pipeline.h).
//
// Thread safety: as sluice/nn.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/context.h"
#include "sluice/nn/container.h"

namespace sluice::nn {

// Returns the group of each layer: what Layer::SetGroup says, or else the layer's name. A layer without
// parameters and without SetGroup belongs to the group of the layer before, at the front to that of the first
// layer with a group or parameters.
std::vector<std::string> GroupsOf(const Sequential& layers);

// The context of each group of layers.
class Placement {
 public:
  Placement() = default;
  // Reads "embed=cpu(0),layer0=gpu(1)"; spaces may stand between. Throws Error(kInvalidArgument), which says
  // what is wrong, for any other text, and for a group that comes twice.
  static Placement Parse(std::string_view text);

  void Set(const std::string& group, Context context) { contexts_[group] = context; }
  // Returns the group's context, or null if it has none.
  const Context* Find(const std::string& group) const;
  const std::map<std::string, Context>& contexts() const { return contexts_; }

 private:
  std::map<std::string, Context> contexts_;
};

// Layers one after another, as Sequential, each on the context of its group. What it computes is what the
// Sequential computes; the gradient flows back over the contexts.
class PlacedSequential final : public Layer {
 public:
  // Neighbouring layers on one context.
  struct Stage {
    Context context;
    size_t begin = 0, end = 0;  // its layers
  };

  // Throws Error(kInvalidArgument) if the placement has no context for a group of the layers or one for a
  // group that they do not have, if there are no layers, and if layers on different contexts share a
  // parameter.
  PlacedSequential(Sequential layers, const Placement& placement);

  // Initialises each parameter on the context of its layer, with the values that the Sequential would have.
  // Throws Error(kFailedPrecondition) if one is initialised already.
  void Initialize(const std::shared_ptr<const Initializer>& init = nullptr, uint64_t seed = 0) const;

  // `x` may lie on any context.
  NDArray Forward(const NDArray& x) override;
  // Runs one stage, on its context. `x` may lie on any context.
  NDArray ForwardStage(size_t stage, const NDArray& x);
  const std::vector<Stage>& stages() const { return stages_; }
  const Sequential& layers() const { return layers_; }

  ParameterDict CollectParams() const override { return layers_.CollectParams(); }
  ParameterDict CollectStageParams(size_t stage) const;
  std::string_view kind() const override { return "PlacedSequential"; }
  void AddPrefix(const std::string& prefix) override;
  void ForgetStates(bool training) override { layers_.ForgetStates(training); }
  bool CarriesStates() const override { return layers_.CarriesStates(); }
  void AddStatesTo(CarriedStates* states) const override { layers_.AddStatesTo(states); }
  void SetStates(const CarriedStates& states) override { layers_.SetStates(states); }

 private:
  void RequireStage(size_t stage) const;

  Sequential layers_;
  std::vector<Stage> stages_;
};

}  // namespace sluice::nn
