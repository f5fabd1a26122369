// The weights of a model: named arrays with gradients, the same values on every context.
//
// An axis of extent 0 is unknown until the first forward (a deferred shape); Initialize may come before it is
// known.
//
// Thread safety: one parameter from one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/autograd.h"
#include "sluice/initializer.h"
#include "sluice/ndarray.h"

namespace sluice::nn {

struct ParameterOptions {
  DType dtype = DType::kFloat32;
  double lr_mult = 1;
  double wd_mult = 1;  // layers give 0 to their biases
  autograd::GradReq grad_req = autograd::GradReq::kWrite;
  bool castable = true;                     // whether ParameterDict::Cast changes its type
  bool differentiable = true;               // false: statistics and the like, whose grad_req stays kNull
  std::shared_ptr<const Initializer> init;  // null: the one handed to Initialize
};

class Parameter {
 public:
  Parameter(std::string name, const Shape& shape, ParameterOptions options = {});
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const std::string& name() const { return name_; }  // "conv1.weight"
  const Shape& shape() const { return shape_; }      // 0: not yet known
  DType dtype() const { return options_.dtype; }
  double lr_mult() const { return options_.lr_mult; }
  double wd_mult() const { return options_.wd_mult; }
  autograd::GradReq grad_req() const { return options_.grad_req; }
  void set_lr_mult(double lr_mult) { options_.lr_mult = lr_mult; }
  void set_wd_mult(double wd_mult) { options_.wd_mult = wd_mult; }
  bool differentiable() const { return options_.differentiable; }
  bool castable() const { return options_.castable; }
  // Gradients so far are dropped. Error(kInvalidArgument) for what is not differentiable.
  void SetGradReq(autograd::GradReq grad_req);
  // To another floating type; values are rounded, gradients so far are dropped.
  void Cast(DType dtype);
  void SetName(std::string name);  // before Initialize: the values depend on it
  // Fills in unknown axes, and the values where Initialize waits for them. Error(kInvalidArgument) where a
  // known axis differs.
  void SetShape(const Shape& shape);

  // Makes the arrays, one per context; a context listed twice holds one. Error(kFailedPrecondition) when that
  // was done before.
  void Initialize(const std::vector<Context>& contexts, std::shared_ptr<const Initializer> init = nullptr,
                  uint64_t seed = 0);
  void RequireUninitialized() const;  // throws what Initialize would
  // As Initialize, whatever went before.
  void Reinitialize(const std::vector<Context>& contexts, std::shared_ptr<const Initializer> init = nullptr,
                    uint64_t seed = 0);

  // Calls `callback` once: as soon as the arrays exist and have their first values, before anyone else sees
  // them; at once where they exist already. The parameter does not keep it: a callback whose owner has let go
  // of it is not called. What it throws comes out of the call that made the arrays, after all callbacks have
  // run. Error(kInvalidArgument) for null.
  void WhenInitialized(const std::shared_ptr<const std::function<void()>>& callback);
  bool initialized() const { return !data_.empty(); }           // the arrays exist
  bool deferred() const { return !initialized() && pending_; }  // Initialize was called, a shape is missing

  // The array on a context. Error(kFailedPrecondition) before the arrays exist, Error(kInvalidArgument) on
  // another context.
  NDArray& data(Context context);
  NDArray grad(Context context);  // Error(kFailedPrecondition) with grad_req kNull
  // In the order of list_ctx().
  std::vector<NDArray>& list_data();
  std::vector<NDArray> list_grad();
  const std::vector<Context>& list_ctx() const { return contexts_; }
  // Copies `value` to every context; also fills in a deferred shape, and nothing is drawn then.
  void SetData(const NDArray& value);
  void ZeroGrad();

 private:
  struct Pending {
    std::shared_ptr<const Initializer> init;
    uint64_t seed;
  };
  void RequireData() const;
  void FillIn(const Shape& shape);
  void AllocateData(const Initializer& init, uint64_t seed);
  void BeginWith(std::vector<NDArray> arrays);

  std::string name_;
  Shape shape_;
  ParameterOptions options_;
  std::vector<Context> contexts_;
  std::optional<Pending> pending_;
  std::vector<std::weak_ptr<const std::function<void()>>> when_initialized_;
  std::vector<NDArray> data_;  // beside contexts_; empty until the shape is known
};

// The parameters of a model in the order of its layers.
class ParameterDict {
 public:
  // One that is there already, shared by two layers, is added once. Error(kAlreadyExists) for another
  // parameter of the same name, Error(kInvalidArgument) for null.
  void Add(std::shared_ptr<Parameter> parameter);
  void Update(const ParameterDict& other);  // adds all

  size_t size() const { return parameters_.size(); }
  bool empty() const { return parameters_.empty(); }
  auto begin() const { return parameters_.begin(); }  // std::shared_ptr<Parameter>
  auto end() const { return parameters_.end(); }
  const std::shared_ptr<Parameter>& at(size_t i) const;  // Error(kInvalidArgument) where there is none
  std::shared_ptr<Parameter> Find(std::string_view name) const;  // null when there is none
  Parameter& operator[](std::string_view name) const;            // Error(kNotFound) with the names there are
  std::vector<std::string> names() const;

  // Parameter::Initialize on each, or on none where one has been before; the default is Xavier().
  void Initialize(const std::vector<Context>& contexts = {cpu(0)},
                  std::shared_ptr<const Initializer> init = nullptr, uint64_t seed = 0) const;
  void ZeroGrad() const;
  // Of all but normalisations' factors and statistics, which stay float32 (as MXNet's BatchNorm does):
  // weights and gradients are of this type, in memory and on the wire, and layers compute in float32. 16-bit
  // weights want OptimizerConfig::multi_precision. Error(kInvalidArgument) for a type that is not floating.
  void Cast(DType dtype) const;
  void SetGradReq(autograd::GradReq grad_req) const;  // of all that are differentiable

 private:
  std::vector<std::shared_ptr<Parameter>> parameters_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace sluice::nn
