// MeasureGroups: what a step of each group of layers takes, in time and bytes. It owns nothing. Every group
// is run by itself, forward and backward, on a graph of its own, and each run is waited for, so that no two
// groups share the cores. Training programs call it, with --group2ctx auto, before they train, on their
// thread.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/strings.h"
#include "nn/fusion.h"
#include "sluice/autograd.h"
#include "sluice/error.h"
#include "sluice/placement_plan.h"

namespace sluice {
namespace {

// Neighbouring layers of one group.
struct Run {
  std::string group;
  size_t begin = 0, end = 0;
};

std::vector<Run> RunsOf(const nn::Sequential& layers) {
  const std::vector<std::string> groups = nn::GroupsOf(layers);
  std::vector<Run> runs;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (runs.empty() || runs.back().group != groups[i]) runs.push_back({groups[i], i, i});
    runs.back().end = i + 1;
  }
  return runs;
}

nn::ParameterDict ParametersOf(const nn::Sequential& layers, const Run& run) {
  nn::ParameterDict parameters;
  for (size_t i = run.begin; i < run.end; ++i) parameters.Update(layers[i].CollectParams());
  return parameters;
}

int64_t BytesOf(const nn::ParameterDict& parameters, int64_t states_of_weight) {
  int64_t bytes = 0;
  for (const auto& parameter : parameters) {
    const bool trained = parameter->differentiable() && parameter->grad_req() != autograd::GradReq::kNull;
    const int64_t gradients = parameter->row_sparse() ? 0 : 1;
    const int64_t arrays = trained ? 1 + gradients + states_of_weight : 1;
    bytes += arrays * parameter->shape().size() * static_cast<int64_t>(SizeOf(parameter->dtype()));
  }
  return bytes;
}

void WaitForGradient(nn::Parameter& parameter) {
  if (parameter.grad_req() == autograd::GradReq::kNull) return;
  if (!parameter.row_sparse()) return parameter.list_grad().front().WaitToRead();
  for (const RowSparse& rows : parameter.rows().grad(parameter.list_ctx().front())) rows.rows.WaitToRead();
}

struct Measured {
  NDArray output;  // without a graph
  double seconds = 0;
  int64_t kept_bytes = 0;
};

// Runs the layers once. `first` is whether no layer is before them, so that the input needs no gradient.
Measured Measure(const nn::Sequential& layers, const Run& run, const nn::ParameterDict& parameters,
                 const NDArray& x, const NDArray* labels, const nn::Loss& loss) {
  const SteadyClock clock;
  const int64_t before = ArrayBytesOn(x.context()).now;
  NDArray input = x.Detach();
  if (run.begin > 0) autograd::AttachGrad(input);
  const Time start = clock.Now();
  Measured measured;
  NDArray y;
  {
    const autograd::RecordScope record;
    y = nn::ForwardRange(layers.children(), run.begin, run.end, input);
    measured.output = y.Detach();
    if (labels != nullptr) y = loss(y, *labels);
  }
  y.WaitToRead();
  measured.kept_bytes = std::max<int64_t>(0, ArrayBytesOn(x.context()).now - before);
  if (y.node() != nullptr) {
    autograd::Backward(y);
    if (run.begin > 0) autograd::Grad(input).WaitToRead();
    for (const auto& parameter : parameters) WaitForGradient(*parameter);
  }
  measured.seconds = ToSeconds(clock.Now() - start);
  return measured;
}

}  // namespace

std::vector<GroupCost> MeasureGroups(const nn::Sequential& layers, const NDArray& x, const NDArray& labels,
                                     const nn::Loss& loss, const MeasureOptions& options) {
  if (layers.size() == 0) throw Error(ErrorCode::kInvalidArgument, "MeasureGroups: there are no layers");
  if (options.repeats < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("MeasureGroups: repeats is ", options.repeats, "; it must be at least 1"));
  }
  for (const auto& parameter : layers.CollectParams())
    if (!parameter->initialized() && !parameter->deferred()) parameter->Initialize({x.context()});
  std::vector<GroupCost> costs;
  NDArray input = x;
  const NDArray own_labels = labels.AsInContext(x.context());
  for (const Run& run : RunsOf(layers)) {
    const nn::ParameterDict parameters = ParametersOf(layers, run);
    const NDArray* const ends_with = run.end == layers.size() ? &own_labels : nullptr;
    Measured best = Measure(layers, run, parameters, input, ends_with, loss);  // fills in deferred shapes
    best.seconds = std::numeric_limits<double>::infinity();
    for (int repeat = 0; repeat < options.repeats; ++repeat) {
      Measured one = Measure(layers, run, parameters, input, ends_with, loss);
      if (one.seconds < best.seconds) best = std::move(one);
    }
    costs.push_back(
        {run.group, best.seconds, BytesOf(parameters, options.states_of_weight), best.kept_bytes});
    input = best.output;
  }
  return costs;
}

}  // namespace sluice
