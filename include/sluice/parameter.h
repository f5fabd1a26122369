// The weights of a model: named arrays with gradients, whose values are the same on every context.
//
// An axis of extent 0 is unknown until the first forward (a deferred shape). Initialize may be called before
// the shape is known.
//
// Thread safety: one parameter may be used by one thread at a time.
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
  bool row_sparse = false;                  // whether the gradient is (autograd::AttachRowGrad)
  bool differentiable = true;               // false for statistics and the like, whose grad_req stays kNull
  std::shared_ptr<const Initializer> init;  // null: the initialiser that is passed to Initialize
};

class Parameter;

// Has the newest values of the rows of parameters whose gradients are row-sparse; a Trainer with
// update_on_kvstore has one. A step updates them there, and each array has only those rows that were fetched
// since.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Brings the rows of `ids`, numbers in an array on a context of the parameter, to the parameter's array
  // there. Passes over ids that are no rows.
  virtual void Fetch(Parameter& parameter, const NDArray& ids) = 0;
  virtual void FetchAll(Parameter& parameter) = 0;  // to the arrays of all contexts
};

// The rows of a parameter with a row-sparse gradient.
class ParameterRows {
 public:
  explicit ParameterRows(Parameter& parameter) : parameter_(parameter) {}
  // Returns the gradient on a context (autograd::RowGrad). Throws as Parameter::grad.
  std::vector<RowSparse> grad(Context context) const;
  // Sets where rows are fetched from. Only a weak pointer is kept: once the source is gone, the arrays count.
  void SetSource(std::weak_ptr<RowSource> source) { source_ = std::move(source); }
  // Fetch the newest values of these rows, or of all, and wait for all: layers fetch before they read rows,
  // SaveParameters before it writes. Neither does anything without a source, nor after the program has
  // written the weights, until a step has given these to the store. Call FetchAll before you destroy the
  // Trainer, and before a write that keeps some of the old values.
  void Fetch(const NDArray& ids) const;
  void FetchAll() const;

 private:
  Parameter& parameter_;
  std::weak_ptr<RowSource> source_;
};

class Parameter {
 public:
  Parameter(std::string name, const Shape& shape, ParameterOptions options = {});
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const std::string& name() const { return name_; }  // "conv1.weight"
  const Shape& shape() const { return shape_; }      // an extent of 0 is not yet known
  DType dtype() const { return options_.dtype; }
  double lr_mult() const { return options_.lr_mult; }
  double wd_mult() const { return options_.wd_mult; }
  autograd::GradReq grad_req() const { return options_.grad_req; }
  void set_lr_mult(double lr_mult) { options_.lr_mult = lr_mult; }
  void set_wd_mult(double wd_mult) { options_.wd_mult = wd_mult; }
  bool differentiable() const { return options_.differentiable; }
  bool castable() const { return options_.castable && !options_.row_sparse; }
  bool row_sparse() const { return options_.row_sparse; }
  // Changes what Backward does with the gradient, and drops the present gradient. Throws
  // Error(kInvalidArgument) for anything but kNull if the parameter is not differentiable.
  void SetGradReq(autograd::GradReq grad_req);
  // Changes the type to another floating type. Values are rounded, and the present gradient is dropped.
  // Throws Error(kInvalidArgument) if the gradient is row-sparse: such a parameter stays float32.
  void Cast(DType dtype);
  // Throws Error(kFailedPrecondition) after Initialize, because the initial values depend on the name.
  void SetName(std::string name);
  // Fills in unknown axes. If Initialize was called before, this makes the arrays. Throws
  // Error(kInvalidArgument) if a known axis differs.
  void SetShape(const Shape& shape);

  // Makes the arrays, one per context, once the shape is known; a context that is listed twice has one array.
  // The values come from the initialiser in ParameterOptions, else from `init`, else from Xavier(). Throws
  // Error(kFailedPrecondition) if Initialize was called before.
  void Initialize(const std::vector<Context>& contexts, std::shared_ptr<const Initializer> init = nullptr,
                  uint64_t seed = 0);
  // As Initialize, but may be called again.
  void Reinitialize(const std::vector<Context>& contexts, std::shared_ptr<const Initializer> init = nullptr,
                    uint64_t seed = 0);

  // Calls `callback` once, as soon as the arrays exist with their first values and before they are used; at
  // once if they exist already. The parameter keeps a weak pointer only: if the owner of the callback has
  // released it, it is not called. If a callback throws, the call that made the arrays throws the same, after
  // all callbacks have run. Throws Error(kInvalidArgument) for null.
  void WhenInitialized(const std::shared_ptr<const std::function<void()>>& callback);
  bool initialized() const { return !data_.empty(); }           // the arrays exist
  bool deferred() const { return !initialized() && pending_; }  // Initialize was called, a shape is missing

  // Return the array, or its gradient, on a context. They throw Error(kFailedPrecondition) before the arrays
  // exist, and Error(kInvalidArgument) for a context without an array; grad also throws
  // Error(kFailedPrecondition) if grad_req is kNull or the gradient is row-sparse.
  NDArray& data(Context context);
  NDArray grad(Context context);
  // Return the arrays, or their gradients, of all contexts, in the order of list_ctx().
  std::vector<NDArray>& list_data();
  std::vector<NDArray> list_grad();
  const std::vector<Context>& list_ctx() const { return contexts_; }
  // Copies `value` to every context. It also fills in a deferred shape, in which case the initialiser is not
  // used.
  void SetData(const NDArray& value);
  void ZeroGrad();
  // Returns what is particular to a row-sparse gradient. Throws Error(kFailedPrecondition) if it is not.
  ParameterRows& rows();

 private:
  struct Pending {
    std::shared_ptr<const Initializer> init;
    uint64_t seed;
  };
  void SetArrays(std::vector<NDArray> arrays);

  std::string name_;
  Shape shape_;
  ParameterOptions options_;
  std::vector<Context> contexts_;
  std::optional<Pending> pending_;
  std::vector<std::weak_ptr<const std::function<void()>>> when_initialized_;
  ParameterRows rows_{*this};
  std::vector<NDArray> data_;  // one for each of contexts_; empty until the shape is known
};

// The parameters of a model in the order of its layers.
class ParameterDict {
 public:
  // Adds a parameter. One that was added before, because two layers share it, is not added again. Throws
  // Error(kAlreadyExists) for another parameter of the same name, Error(kInvalidArgument) for null.
  void Add(std::shared_ptr<Parameter> parameter);
  void Update(const ParameterDict& other);  // adds all parameters of `other`

  size_t size() const { return parameters_.size(); }
  bool empty() const { return parameters_.empty(); }
  auto begin() const { return parameters_.begin(); }  // iterates over std::shared_ptr<Parameter>
  auto end() const { return parameters_.end(); }
  const std::shared_ptr<Parameter>& at(size_t i) const;  // throws Error(kInvalidArgument) if i >= size()
  std::shared_ptr<Parameter> Find(std::string_view name) const;  // null if there is none of this name
  Parameter& operator[](std::string_view name) const;  // throws Error(kNotFound), which lists the names
  std::vector<std::string> names() const;

  // Calls Parameter::Initialize on each; if one of them would throw Error(kFailedPrecondition), none is
  // initialised. The default initialiser is Xavier().
  void Initialize(const std::vector<Context>& contexts = {cpu(0)},
                  std::shared_ptr<const Initializer> init = nullptr, uint64_t seed = 0) const;
  void ZeroGrad() const;
  // Changes the type of all parameters but the factors and statistics of normalisations, which stay float32
  // (as in MXNet's BatchNorm). Weights and gradients then have this type in memory and in messages. Layers
  // still compute in float32, but may round the factors of products with bfloat16 weights to bfloat16
  // (SLUICE_BFLOAT16_ARITHMETIC). 16-bit weights should use OptimizerConfig::multi_precision. Throws
  // Error(kInvalidArgument) for a type that is not floating.
  void Cast(DType dtype) const;
  void SetGradReq(autograd::GradReq grad_req) const;  // for all parameters that are differentiable

 private:
  std::vector<std::shared_ptr<Parameter>> parameters_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace sluice::nn
