// Layers that are made of other layers; see sluice/nn.h.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sluice/nn/layer.h"

namespace sluice::nn {

// The named layers of a container.
class Children {
 public:
  // Throws Error(kInvalidArgument) without a name or a layer, and Error(kAlreadyExists) for a second layer of
  // the same name.
  void Add(const Layer& container, const std::string& name, std::unique_ptr<Layer> layer);
  void AddPrefix(const std::string& prefix) const;
  void ForgetStates(bool training) const;
  bool CarriesStates() const;
  void AddStatesTo(CarriedStates* states) const;
  void SetStates(const CarriedStates& states) const;
  ParameterDict CollectParams() const;
  size_t size() const { return layers_.size(); }
  Layer& operator[](size_t i) const;              // throws Error(kInvalidArgument) if i >= size()
  auto begin() const { return layers_.begin(); }  // iterates over std::unique_ptr<Layer>
  auto end() const { return layers_.end(); }

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
};

// A function as a layer. The function consists of operations on arrays, so that it is recorded. The layer has
// no parameters.
class Lambda final : public PlainLayer {
 public:
  using Function = std::function<NDArray(const NDArray&)>;
  explicit Lambda(Function function);  // throws Error(kInvalidArgument) for an empty function
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "Lambda"; }

 private:
  Function function_;
};

// Layers one after another; without layers the result is the input. Children have the names under which they
// are added, or else "0", "1", ...
class Sequential final : public Layer {
 public:
  template <typename L>
  requires std::derived_from<L, Layer> Sequential& Add(const std::string& name, L layer) {
    children_.Add(*this, name, std::make_unique<L>(std::move(layer)));
    return *this;
  }
  template <typename L>
  requires std::derived_from<L, Layer> Sequential& Add(L layer) {
    return Add(std::to_string(size()), std::move(layer));
  }

  NDArray Forward(const NDArray& x) override;
  ParameterDict CollectParams() const override { return children_.CollectParams(); }
  std::string_view kind() const override { return "Sequential"; }
  void AddPrefix(const std::string& prefix) override;
  void ForgetStates(bool training) override { children_.ForgetStates(training); }
  bool CarriesStates() const override { return children_.CarriesStates(); }
  void AddStatesTo(CarriedStates* states) const override { children_.AddStatesTo(states); }
  void SetStates(const CarriedStates& states) override { children_.SetStates(states); }
  size_t size() const { return children_.size(); }
  Layer& operator[](size_t i) const { return children_[i]; }
  const Children& children() const { return children_; }

 private:
  Children children_;
};

// Layers side by side on the same input, whose outputs are joined along `axis` (Gluon's HybridConcurrent, of
// which inception and dense blocks are made). If the shapes of the outputs differ along other axes, Forward
// throws Error(kInvalidArgument).
class Concurrent final : public Layer {
 public:
  explicit Concurrent(size_t axis = 1) : axis_(axis) {}
  template <typename L>
  requires std::derived_from<L, Layer> Concurrent& Add(const std::string& name, L layer) {
    children_.Add(*this, name, std::make_unique<L>(std::move(layer)));
    return *this;
  }
  template <typename L>
  requires std::derived_from<L, Layer> Concurrent& Add(L layer) {
    return Add(std::to_string(size()), std::move(layer));
  }

  NDArray Forward(const NDArray& x) override;
  ParameterDict CollectParams() const override { return children_.CollectParams(); }
  std::string_view kind() const override { return "Concurrent"; }
  void AddPrefix(const std::string& prefix) override;
  void ForgetStates(bool training) override { children_.ForgetStates(training); }
  bool CarriesStates() const override { return children_.CarriesStates(); }
  void AddStatesTo(CarriedStates* states) const override { children_.AddStatesTo(states); }
  void SetStates(const CarriedStates& states) override { children_.SetStates(states); }
  size_t size() const { return children_.size(); }
  Layer& operator[](size_t i) const { return children_[i]; }

 private:
  Children children_;
  size_t axis_;
};

// body(x) + x, or body(x) + shortcut(x) where the body changes the shape (He, Zhang, Ren, Sun 2016). The
// names of the parameters begin with "body." and "shortcut.". If the shapes of the two terms differ, Forward
// throws Error(kInvalidArgument), which names both.
class Residual final : public Layer {
 public:
  template <typename Body>
  requires std::derived_from<Body, Layer>
  explicit Residual(Body body) { children_.Add(*this, "body", std::make_unique<Body>(std::move(body))); }
  template <typename Body, typename Shortcut>
  requires std::derived_from<Body, Layer> && std::derived_from<Shortcut, Layer> Residual(Body body,
                                                                                         Shortcut shortcut)
      : Residual(std::move(body)) {
    children_.Add(*this, "shortcut", std::make_unique<Shortcut>(std::move(shortcut)));
  }

  NDArray Forward(const NDArray& x) override { return Run(x, false); }
  NDArray ForwardRelu(const NDArray& x) { return Run(x, true); }  // max(Forward(x), 0), in fewer passes
  ParameterDict CollectParams() const override { return children_.CollectParams(); }
  std::string_view kind() const override { return "Residual"; }
  void AddPrefix(const std::string& prefix) override;
  void ForgetStates(bool training) override { children_.ForgetStates(training); }
  bool CarriesStates() const override { return children_.CarriesStates(); }
  void AddStatesTo(CarriedStates* states) const override { children_.AddStatesTo(states); }
  void SetStates(const CarriedStates& states) override { children_.SetStates(states); }

 private:
  NDArray Run(const NDArray& x, bool relu);
  Children children_;
};

}  // namespace sluice::nn
