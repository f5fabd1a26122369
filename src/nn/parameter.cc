// Parameter and ParameterDict (sluice/parameter.h).
//
// A parameter is in one of three states: not initialised; deferred, where an axis of its shape is unknown and
// pending_ keeps initialiser and seed; or initialised, with one array per context in data_. Values are drawn
// once and copied, so that all contexts begin alike. Layers call data() in Forward, Trainers list_data() and
// list_grad(), all on the training thread.
#include "sluice/parameter.h"

#include <algorithm>
#include <utility>

#include "base/no_memory.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::nn {
namespace {

bool IsComplete(const Shape& shape) {
  return std::ranges::find(shape.dims(), 0) == shape.dims().end();
}

bool Agrees(const Shape& known, const Shape& given) {
  if (known.ndim() != given.ndim()) return false;
  for (size_t axis = 0; axis < known.ndim(); ++axis) {
    if (known[axis] != 0 && given[axis] != 0 && known[axis] != given[axis]) return false;
  }
  return true;
}

std::vector<Context> Distinct(const std::vector<Context>& contexts) {
  std::vector<Context> distinct;
  for (const Context& context : contexts) {
    if (std::find(distinct.begin(), distinct.end(), context) == distinct.end()) distinct.push_back(context);
  }
  return distinct;
}

// Throws if Initialize would.
void RequireUninitialized(const Parameter& parameter) {
  if (!parameter.initialized() && !parameter.deferred()) return;
  throw Error(ErrorCode::kFailedPrecondition,
              StrCat("parameter '", parameter.name(), "' is initialised already on ",
                     StrJoin(parameter.list_ctx()), "; Reinitialize starts anew"));
}

void RequireData(const Parameter& parameter) {
  if (parameter.initialized()) return;
  throw Error(ErrorCode::kFailedPrecondition,
              parameter.deferred()
                  ? StrCat("parameter '", parameter.name(), "' has shape ", parameter.shape(),
                           " (0: unknown) and gets its values at the first forward: run one, or give "
                           "the layer its input size")
                  : StrCat("parameter '", parameter.name(), "' has no values: call Initialize first"));
}

void RequireGradient(const Parameter& parameter) {
  if (parameter.grad_req() != autograd::GradReq::kNull) return;
  throw Error(ErrorCode::kFailedPrecondition,
              StrCat("parameter '", parameter.name(), "' has no gradient: its grad_req is kNull"));
}

void AttachGradTo(NDArray& array, const ParameterOptions& options) {
  options.row_sparse ? autograd::AttachRowGrad(array, options.grad_req)
                     : autograd::AttachGrad(array, options.grad_req);
}

// Returns the parameter's shape with the axes of `shape` in place of unknown ones.
Shape FilledIn(const Parameter& parameter, const Shape& shape) {
  Shape filled = parameter.shape();
  if (!Agrees(filled, shape)) {
    throw Error(ErrorCode::kInvalidArgument, StrCat("parameter '", parameter.name(), "' has shape ", filled,
                                                    " (0: unknown) and was given ", shape));
  }
  for (size_t axis = 0; axis < shape.ndim(); ++axis)
    filled = filled.WithExtent(axis, std::max(filled[axis], shape[axis]));
  return filled;
}

// Returns the parameter's first values, on each context.
std::vector<NDArray> FirstValues(const Parameter& parameter, const Initializer& init, uint64_t seed) {
  const Shape& shape = parameter.shape();
  const std::vector<float> drawn = WithMemoryFor([&] { return init.Values(parameter.name(), shape, seed); },
                                                 "parameter '", parameter.name(), "' of shape ", shape, ", ",
                                                 shape.size(), " values; make its layer smaller");
  const std::vector<Context>& contexts = parameter.list_ctx();
  const NDArray values = NDArray::From(std::span<const float>(drawn), shape, contexts.front());
  const autograd::PauseScope pause;
  const NDArray typed = parameter.dtype() == DType::kFloat32 ? values : values.AsType(parameter.dtype());
  std::vector<NDArray> arrays;
  for (const Context& context : contexts) arrays.push_back(typed.AsInContext(context));
  return arrays;
}

}  // namespace

Parameter::Parameter(std::string name, const Shape& shape, ParameterOptions options)
    : name_(std::move(name)), shape_(shape), options_(std::move(options)) {
  if (!options_.differentiable) options_.grad_req = autograd::GradReq::kNull;
}

void Parameter::SetName(std::string name) {
  if (initialized() || deferred()) {
    throw Error(ErrorCode::kFailedPrecondition, StrCat("parameter '", name_, "' cannot become '", name,
                                                       "' after Initialize: name layers before it"));
  }
  name_ = std::move(name);
}

void Parameter::SetGradReq(autograd::GradReq grad_req) {
  if (!differentiable() && grad_req != autograd::GradReq::kNull) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("parameter '", name_, "' is not differentiable: its grad_req stays kNull"));
  }
  options_.grad_req = grad_req;
  for (NDArray& array : data_) AttachGradTo(array, options_);
}

void Parameter::Cast(DType dtype) {
  if (!IsFloating(dtype)) {
    throw Error(ErrorCode::kInvalidArgument, StrCat("parameter '", name_, "' cannot be cast to ", Name(dtype),
                                                    ": it takes floating types"));
  }
  if (dtype == options_.dtype) return;
  if (row_sparse()) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("parameter '", name_, "' cannot be cast to ", Name(dtype),
                       ": its gradient is row-sparse, and such a parameter stays float32"));
  }
  options_.dtype = dtype;
  const autograd::PauseScope pause;
  for (NDArray& array : data_) {
    array = array.AsType(dtype);
    AttachGradTo(array, options_);
  }
}

void Parameter::SetShape(const Shape& shape) {
  if (shape == shape_ && (initialized() || !pending_)) return;
  shape_ = FilledIn(*this, shape);
  if (deferred() && IsComplete(shape_)) SetArrays(FirstValues(*this, *pending_->init, pending_->seed));
}

void Parameter::Initialize(const std::vector<Context>& contexts, std::shared_ptr<const Initializer> init,
                           uint64_t seed) {
  RequireUninitialized(*this);
  Reinitialize(contexts, std::move(init), seed);
}

void Parameter::Reinitialize(const std::vector<Context>& contexts, std::shared_ptr<const Initializer> init,
                             uint64_t seed) {
  if (contexts.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("parameter '", name_, "' was initialised over no context; give at least one"));
  }
  if (options_.init) init = options_.init;
  if (!init) init = std::make_shared<Xavier>();
  contexts_ = Distinct(contexts);
  data_.clear();
  pending_.reset();
  if (IsComplete(shape_)) {
    SetArrays(FirstValues(*this, *init, seed));
  } else {
    pending_ = Pending{std::move(init), seed};
  }
}

// Makes `arrays` the parameter's values and runs the callbacks of WhenInitialized. All callbacks run
// even if one throws; the first exception is rethrown.
void Parameter::SetArrays(std::vector<NDArray> arrays) {
  for (NDArray& array : arrays) AttachGradTo(array, options_);
  data_ = std::move(arrays);
  pending_.reset();
  std::exception_ptr failure;
  for (const auto& awaiting : std::exchange(when_initialized_, {})) {
    try {
      if (const auto callback = awaiting.lock()) (*callback)();
    } catch (...) {
      if (failure == nullptr) failure = std::current_exception();
    }
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

void Parameter::WhenInitialized(const std::shared_ptr<const std::function<void()>>& callback) {
  if (callback == nullptr || *callback == nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("parameter '", name_, "': WhenInitialized was given no function"));
  }
  if (initialized()) return (*callback)();
  when_initialized_.push_back(callback);
}

NDArray& Parameter::data(Context context) {
  RequireData(*this);
  const auto found = std::find(contexts_.begin(), contexts_.end(), context);
  if (found == contexts_.end()) {
    throw Error(ErrorCode::kInvalidArgument, StrCat("parameter '", name_, "' is not on ", context,
                                                    "; it was initialised on ", StrJoin(contexts_)));
  }
  return data_[static_cast<size_t>(found - contexts_.begin())];
}

NDArray Parameter::grad(Context context) {
  NDArray& array = data(context);
  RequireGradient(*this);
  if (row_sparse()) {
    throw Error(ErrorCode::kFailedPrecondition,
                StrCat("parameter '", name_, "' has a row-sparse gradient: rows().grad returns it"));
  }
  return autograd::Grad(array);
}

std::vector<NDArray>& Parameter::list_data() {
  RequireData(*this);
  return data_;
}

std::vector<NDArray> Parameter::list_grad() {
  RequireData(*this);
  std::vector<NDArray> gradients;
  for (const Context& context : contexts_) gradients.push_back(grad(context));
  return gradients;
}

void Parameter::SetData(const NDArray& value) {
  const autograd::PauseScope pause;
  const auto copy_to = [&value](NDArray& array) { value.AsInContext(array.context()).CopyTo(&array); };
  if (value.shape() != shape_ || deferred()) shape_ = FilledIn(*this, value.shape());
  if (!deferred() || !IsComplete(shape_)) {
    RequireData(*this);
    std::ranges::for_each(data_, copy_to);
    return;
  }
  std::vector<NDArray> arrays;  // filled before SetArrays: the callbacks of WhenInitialized see `value`
  for (const Context& context : contexts_)
    copy_to(arrays.emplace_back(NDArray::Empty(shape_, context, dtype())));
  SetArrays(std::move(arrays));
}

void Parameter::ZeroGrad() {
  if (grad_req() == autograd::GradReq::kNull || !initialized()) return;
  if (row_sparse()) {
    for (const NDArray& array : data_) autograd::SetRowGrad(array, {});
    return;
  }
  for (NDArray& gradient : list_grad()) gradient.Fill(0);
}

ParameterRows& Parameter::rows() {
  if (row_sparse()) return rows_;
  throw Error(ErrorCode::kFailedPrecondition,
              StrCat("parameter '", name_, "' has a dense gradient: grad returns it"));
}

std::vector<RowSparse> ParameterRows::grad(Context context) const {
  const NDArray& array = parameter_.data(context);
  RequireGradient(parameter_);
  return autograd::RowGrad(array);
}

void ParameterRows::Fetch(const NDArray& ids) const {
  if (const auto source = source_.lock()) source->Fetch(parameter_, ids);
}

void ParameterRows::FetchAll() const {
  if (const auto source = source_.lock()) source->FetchAll(parameter_);
}

void ParameterDict::Add(std::shared_ptr<Parameter> parameter) {
  if (parameter == nullptr) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "ParameterDict::Add: the parameter is a null pointer; Find gives one where it has no such name");
  }
  const auto [place, added] = by_name_.emplace(parameter->name(), parameters_.size());
  if (!added && parameters_[place->second] == parameter) return;
  if (!added) {
    throw Error(ErrorCode::kAlreadyExists, StrCat("two parameters are called '", parameter->name(),
                                                  "': give their layers different names in Sequential::Add"));
  }
  parameters_.push_back(std::move(parameter));
}

void ParameterDict::Update(const ParameterDict& other) {
  for (const auto& parameter : other) Add(parameter);
}

const std::shared_ptr<Parameter>& ParameterDict::at(size_t i) const {
  if (i < size()) return parameters_[i];
  throw Error(ErrorCode::kInvalidArgument,
              StrCat("there is no parameter ", i, "; there are ", size(), ", from 0 on"));
}

std::shared_ptr<Parameter> ParameterDict::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : parameters_[found->second];
}

Parameter& ParameterDict::operator[](std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    throw Error(ErrorCode::kNotFound, StrCat("no parameter is called '", name, "'; there are ",
                                             empty() ? "none" : StrJoin(names())));
  }
  return *parameters_[found->second];
}

std::vector<std::string> ParameterDict::names() const {
  std::vector<std::string> names;
  for (const auto& parameter : parameters_) names.push_back(parameter->name());
  return names;
}

void ParameterDict::Initialize(const std::vector<Context>& contexts, std::shared_ptr<const Initializer> init,
                               uint64_t seed) const {
  for (const auto& parameter : parameters_) RequireUninitialized(*parameter);
  for (const auto& parameter : parameters_) parameter->Initialize(contexts, init, seed);
}

void ParameterDict::Cast(DType dtype) const {
  for (const auto& parameter : parameters_) {
    if (parameter->castable()) parameter->Cast(dtype);
  }
}

void ParameterDict::SetGradReq(autograd::GradReq grad_req) const {
  for (const auto& parameter : parameters_) {
    if (parameter->differentiable()) parameter->SetGradReq(grad_req);
  }
}

void ParameterDict::ZeroGrad() const {
  for (const auto& parameter : parameters_) parameter->ZeroGrad();
}

}  // namespace sluice::nn
