// Layers made of layers: sluice/nn.h.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sluice/nn/layer.h"

namespace sluice::nn {

// Layers one after the other. Children are called by the names they are added under, else "0", "1", ...
class Sequential final : public Layer {
 public:
  template <typename L>
  requires std::derived_from<L, Layer> Sequential& Add(const std::string& name, L layer) {
    return AddChild(name, std::make_unique<L>(std::move(layer)));
  }
  template <typename L>
  requires std::derived_from<L, Layer> Sequential& Add(L layer) {
    return Add(std::to_string(size()), std::move(layer));
  }

  NDArray Forward(const NDArray& x) override;
  ParameterDict CollectParams() const override;
  std::string_view kind() const override { return "Sequential"; }
  void AddPrefix(const std::string& prefix) override;
  size_t size() const { return layers_.size(); }
  Layer& operator[](size_t i) const { return *layers_.at(i); }

 private:
  Sequential& AddChild(const std::string& name, std::unique_ptr<Layer> layer);

  std::vector<std::unique_ptr<Layer>> layers_;
};

}  // namespace sluice::nn
