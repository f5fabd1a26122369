#include "train/shards.h"

#include <span>

#include "base/strings.h"
#include "sluice/error.h"
#include "sluice/split.h"

namespace sluice::train {
namespace {

[[noreturn]] void ThrowInvalid(std::string_view call, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, StrCat(call, ": ", why));
}

// Copies the values to the pinned context, which has a stream of its own, so that the copy does not wait for
// computations.
NDArray HostArrayFrom(std::span<const float> values, const Shape& shape) {
  return NDArray::From(values, shape, cpu_pinned(0));
}

NDArray LabelsOf(const Batch& batch) {
  if (batch.label_shape.ndim() > 0) return HostArrayFrom(batch.label_values, batch.label_shape);
  const std::vector<float> classes(batch.labels.begin(), batch.labels.end());
  return HostArrayFrom(classes, {batch.size()});
}

}  // namespace

std::vector<Context> ContextsOf(nn::Layer& net, const std::vector<Context>& asked, std::string_view call) {
  if (asked.empty()) ThrowInvalid(call, "there are no contexts to compute on; cpu(0) is one");
  const auto* const placed = dynamic_cast<const nn::PlacedSequential*>(&net);
  if (placed == nullptr) return asked;
  if (asked.size() > 1) {
    ThrowInvalid(call,
                 StrCat("there are ", asked.size(),
                        " contexts, and the network is a PlacedSequential, which lies on the contexts of its "
                        "placement: leave the option out"));
  }
  if (placed->stages().empty()) ThrowInvalid(call, "the network has been moved from");
  return {placed->stages().front().context};
}

Shards Load(const Batch& batch, const std::vector<Context>& contexts, const std::vector<double>& work_load) {
  Shards shards;
  if (batch.size() == 0) return shards;
  const NDArray images = HostArrayFrom(batch.samples, batch.shape);
  const NDArray labels = LabelsOf(batch);
  if (batch.size() < static_cast<int64_t>(contexts.size())) {  // too small to cut, at the end of an epoch
    shards.images = {images.AsInContext(contexts.front())};
    shards.labels = {labels.AsInContext(contexts.front())};
    return shards;
  }
  const auto cut = [&](const NDArray& whole) {
    return work_load.empty() ? SplitAndLoad(whole, contexts, /*even_split=*/false)
                             : SplitAndLoad(whole, contexts, std::span<const double>(work_load));
  };
  shards.images = cut(images);
  shards.labels = cut(labels);
  return shards;
}

}  // namespace sluice::train
