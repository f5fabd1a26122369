// Spreads the layers of a network over devices: as the map of --group2ctx says or, for "auto", so that each
// device has about the same work. For that a second network of the same make is measured on the first device,
// and dropped.
#include "common/placement.h"

#include <algorithm>
#include <utility>

#include "common/flags.h"
#include "common/text.h"
#include "sluice/placement_plan.h"

DEFINE_string(
    group2ctx, "",
    "Spread the layers over devices (model parallelism): auto, over those of --num-devices or --gpus with "
    "the work even, or a map such as embed=cpu(0),lstm0=cpu(0),lstm1=cpu(1). Empty: every device has all "
    "layers "
    "and a part of each batch.");
DEFINE_int64(
    micro_batches, 4,
    "With --group2ctx: a device works on one of so many parts of the batch while the next device works on "
    "the part before. 0: one device after the other.");

namespace sluice::examples {
namespace {

constexpr std::string_view kAuto = "auto";

// Returns the contexts of a map, each once, in their order.
std::vector<Context> ContextsOf(const nn::Placement& placement) {
  std::vector<Context> contexts;
  for (const auto& [group, context] : placement.contexts()) contexts.push_back(context);
  std::ranges::sort(contexts);
  contexts.erase(std::unique(contexts.begin(), contexts.end()), contexts.end());
  return contexts;
}

// Returns the text that Placement::Parse reads.
std::string TextOf(const nn::Placement& placement) {
  std::string text;
  for (const auto& [group, context] : placement.contexts())
    text += StrCat(text.empty() ? "" : ",", group, "=", context);
  return text;
}

// Returns the map of --group2ctx. Throws unless all of its contexts are there.
nn::Placement Map() {
  try {
    const nn::Placement placement = nn::Placement::Parse(FLAGS_group2ctx);
    for (const Context& context : ContextsOf(placement)) NDArray::Empty({1}, context);
    return placement;
  } catch (const Error& error) {
    ThrowInvalid("group2ctx", StrCat("is '", FLAGS_group2ctx, "': ", error.what()));
  }
}

PlacementPlan Plan(const nn::Sequential& measured, const std::vector<Context>& contexts, const Dataset& train,
                   const nn::Loss& loss, const OptimizerConfig& optimizer) {
  const std::vector<int64_t> memory = DeviceMemory(contexts.size());
  const int64_t parts = std::max<int64_t>(1, FLAGS_micro_batches);
  const int64_t samples = std::max<int64_t>(1, std::min(FLAGS_batch_size, train.size()) / parts);
  const auto zeros = [&](const Shape& sample) {
    return NDArray(sample.WithAxis(0, samples), contexts.front());
  };
  const auto states = static_cast<int64_t>(Optimizer::Create(optimizer)->num_slots());
  const std::vector<GroupCost> costs =
      MeasureGroups(measured, zeros(train.sample_shape()), zeros(train.label_shape().value_or(Shape{})), loss,
                    {.states_of_weight = states});
  try {
    return PlanPlacement(costs, contexts, {.micro_batches = parts, .memory = memory});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kResourceExhausted) throw;
    ThrowInvalid("device-memory", StrCat("is too little: ", error.what()));
  }
}

}  // namespace

Network PlaceNetwork(const std::function<nn::Sequential()>& make, const Dataset& train, const nn::Loss& loss,
                     const OptimizerConfig& optimizer) {
  const auto made = [&] {
    nn::Sequential layers = make();
    layers.CollectParams().Cast(WeightType());
    return layers;
  };
  if (FLAGS_group2ctx.empty())
    return {.net = std::make_unique<nn::Sequential>(made()), .contexts = Contexts(), .placed = false};
  Network network{.placed = true};
  nn::Placement placement;
  if (FLAGS_group2ctx == kAuto) {
    network.contexts = Contexts();
    const PlacementPlan plan = Plan(made(), network.contexts, train, loss, optimizer);
    placement = plan.placement();
    network.plan = StrCat(plan.ToText(), "as a map: --group2ctx \"", TextOf(placement), "\"\n");
    network.contexts = ContextsOf(placement);
  } else {
    placement = Map();
    network.contexts = ContextsOf(placement);
  }
  try {
    network.net = std::make_unique<nn::PlacedSequential>(made(), placement);
  } catch (const Error& error) {
    const bool chosen = FLAGS_group2ctx == kAuto;
    ThrowInvalid("group2ctx", StrCat("is ", FLAGS_group2ctx, " and does not suit --network ", FLAGS_network,
                                     ": ", error.what(), chosen ? ", in a map in place of auto" : ""));
  }
  return network;
}

int64_t MicroBatches() {
  return FLAGS_group2ctx.empty() ? 0 : FLAGS_micro_batches;
}

void CheckPlacement() {
  RequireAtLeast("micro-batches", FLAGS_micro_batches, 0);
  if (IsGiven("device_memory") && FLAGS_group2ctx != kAuto)
    ThrowInvalid("device-memory", "needs --group2ctx auto, which looks for a cut within it");
  if (FLAGS_group2ctx.empty()) {
    if (IsGiven("micro_batches"))
      ThrowInvalid("micro-batches", "needs --group2ctx, which spreads the layers");
    return;
  }
  if (!WorkLoads().empty())
    ThrowInvalid("work-load-list",
                 "cuts batches over devices; with --group2ctx each device has other layers");
  if (FLAGS_group2ctx == kAuto) return;
  if (IsGiven("num_devices") || IsGiven("gpus"))
    ThrowInvalid("group2ctx",
                 "names the devices; leave --num-devices and --gpus out, or take --group2ctx auto");
  Map();
}

std::string DescribeMemory(const std::vector<Context>& contexts) {
  std::vector<std::string> texts;
  for (const Context& context : contexts) {
    const auto mebibytes = static_cast<double>(ArrayBytesOn(context).most) / (1 << 20);
    texts.push_back(StrCat(context, " ", static_cast<int64_t>(mebibytes + 0.5), " MiB"));
  }
  return StrCat("memory of arrays, at most: ", StrJoin(texts));
}

}  // namespace sluice::examples
