// Placement and PlacedSequential. A placed network owns its layers and cuts them into stages, which cover
// them in order; neighbouring stages lie on different contexts. Invariant: a parameter is used on one context
// only. Forward runs on the caller's thread and issues operations on the streams of the contexts.
#include "sluice/nn/placement.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "nn/fusion.h"
#include "nn/require.h"

namespace sluice::nn {
namespace {

constexpr std::string_view kWanted =
    "a placement is written as group=context with commas between, such as embed=cpu(0),decode=gpu(1)";

// Reads "cpu(0)" or "gpu(1)".
std::optional<Context> ContextFrom(std::string_view text) {
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kGpu}) {
    const std::string_view name = kind == DeviceKind::kCpu ? "cpu(" : "gpu(";
    if (!text.starts_with(name) || !text.ends_with(')')) continue;
    const auto id = ParseInt(text.substr(name.size(), text.size() - name.size() - 1));
    if (id && *id >= 0 && *id <= INT32_MAX) return Context{kind, static_cast<int>(*id)};
  }
  return std::nullopt;
}

std::vector<std::string> EachOnce(const std::vector<std::string>& groups) {
  std::vector<std::string> each;
  for (const std::string& group : groups)
    if (std::ranges::find(each, group) == each.end()) each.push_back(group);
  return each;
}

// `of_layers` is what GroupsOf returns.
void RequireFits(const std::vector<std::string>& of_layers, const Placement& placement) {
  if (of_layers.empty()) ThrowInvalid("PlacedSequential: there are no layers");
  const std::vector<std::string> groups = EachOnce(of_layers);
  for (const std::string& group : groups) {
    if (placement.Find(group) == nullptr) {
      ThrowInvalid(StrCat("PlacedSequential: the placement has no context for the group '", group,
                          "'; the groups of the layers are ", StrJoin(groups)));
    }
  }
  for (const auto& [group, context] : placement.contexts()) {
    if (std::ranges::find(groups, group) == groups.end()) {
      ThrowInvalid(StrCat("PlacedSequential: the placement puts the group '", group, "' on ", context,
                          ", and no layer is of it; the groups of the layers are ", StrJoin(groups)));
    }
  }
}

// An array of a parameter lies on one context, where all layers that use it compute.
void RequireApart(const Sequential& layers, const std::vector<PlacedSequential::Stage>& stages) {
  std::map<std::shared_ptr<Parameter>, Context> places;
  for (const PlacedSequential::Stage& stage : stages) {
    for (size_t i = stage.begin; i < stage.end; ++i) {
      for (const auto& parameter : layers[i].CollectParams()) {
        const Context place = places.try_emplace(parameter, stage.context).first->second;
        if (place == stage.context) continue;
        ThrowInvalid(StrCat("PlacedSequential: layer '", layers[i].name(), "' on ", stage.context,
                            " shares parameter '", parameter->name(), "' with a layer on ", place,
                            "; put both on one context"));
      }
    }
  }
}

}  // namespace

std::vector<std::string> GroupsOf(const Sequential& layers) {
  std::vector<std::string> groups;
  size_t without = 0;  // layers at the front
  for (const auto& layer : layers.children()) {
    const bool has_own = !layer->group().empty() || !layer->CollectParams().empty();
    if (has_own) {
      groups.push_back(layer->group().empty() ? layer->name() : layer->group());
      std::fill_n(groups.begin(), std::exchange(without, 0), groups.back());
    } else {
      if (without == groups.size()) ++without;
      groups.push_back(groups.empty() ? layer->name() : groups.back());
    }
  }
  return groups;
}

Placement Placement::Parse(std::string_view text) {
  Placement placement;
  for (const std::string& pair : StrSplit(text, ',')) {
    const std::string_view both = StrTrim(pair);
    const size_t equals = both.find('=');
    const std::string group(StrTrim(both.substr(0, equals)));
    if (equals == std::string_view::npos || group.empty())
      ThrowInvalid(StrCat("'", both, "' of the placement '", text, "' names no group; ", kWanted));
    const std::string_view where = StrTrim(both.substr(equals + 1));
    const std::optional<Context> context = ContextFrom(where);
    if (!context) {
      ThrowInvalid(StrCat("the context '", where, "' of the group '", group, "' in the placement '", text,
                          "' is none; ", kWanted));
    }
    if (placement.Find(group) != nullptr)
      ThrowInvalid(StrCat("the placement '", text, "' has the group '", group, "' twice"));
    placement.Set(group, *context);
  }
  return placement;
}

const Context* Placement::Find(const std::string& group) const {
  const auto found = contexts_.find(group);
  return found == contexts_.end() ? nullptr : &found->second;
}

PlacedSequential::PlacedSequential(Sequential layers, const Placement& placement)
    : layers_(std::move(layers)) {
  const std::vector<std::string> groups = GroupsOf(layers_);
  RequireFits(groups, placement);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Context context = *placement.Find(groups[i]);
    if (stages_.empty() || stages_.back().context != context) stages_.push_back({context, i, i});
    stages_.back().end = i + 1;
  }
  RequireApart(layers_, stages_);
}

void PlacedSequential::Initialize(const std::shared_ptr<const Initializer>& init, uint64_t seed) const {
  for (const auto& parameter : CollectParams()) {
    if (!parameter->initialized() && !parameter->deferred()) continue;
    throw Error(ErrorCode::kFailedPrecondition,
                StrCat("parameter '", parameter->name(), "' is initialised already"));
  }
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    for (const auto& parameter : CollectStageParams(stage)) {
      const bool shared = parameter->initialized() || parameter->deferred();  // with a stage before
      if (!shared) parameter->Initialize({stages_[stage].context}, init, seed);
    }
  }
}

NDArray PlacedSequential::Forward(const NDArray& x) {
  if (stages_.empty())
    throw Error(ErrorCode::kFailedPrecondition, StrCat(Describe(), " has been moved from"));
  NDArray y = x;
  for (size_t stage = 0; stage < stages_.size(); ++stage) y = ForwardStage(stage, y);
  return y;
}

NDArray PlacedSequential::ForwardStage(size_t stage, const NDArray& x) {
  RequireStage(stage);
  RequireArrayFor(Describe(), "its input", x);
  const Stage& of = stages_[stage];
  return ForwardRange(layers_.children(), of.begin, of.end, x.AsInContext(of.context));
}

ParameterDict PlacedSequential::CollectStageParams(size_t stage) const {
  RequireStage(stage);
  ParameterDict parameters;
  for (size_t i = stages_[stage].begin; i < stages_[stage].end; ++i)
    parameters.Update(layers_[i].CollectParams());
  return parameters;
}

void PlacedSequential::RequireStage(size_t stage) const {
  if (stage >= stages_.size())
    ThrowInvalid(StrCat(Describe(), " has ", stages_.size(), " stages and no stage ", stage));
}

void PlacedSequential::AddPrefix(const std::string& prefix) {
  Layer::AddPrefix(prefix);
  layers_.AddPrefix(prefix);
}

}  // namespace sluice::nn
