// Chooses the loss and the metric of a run, and checks that network, loss, metric and data fit each
// other. Internal to train/.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "sluice/callback.h"
#include "sluice/data.h"
#include "sluice/loss.h"
#include "sluice/metric.h"
#include "sluice/nn.h"

namespace sluice::train {

// Returns `asked` or, if it is null, the softmax cross-entropy of classes. Throws Error(kInvalidArgument),
// whose message begins with `who`, when it is null and labels are arrays: no loss suits all of those.
std::shared_ptr<const nn::Loss> LossFor(const std::shared_ptr<const nn::Loss>& asked, const Dataset& data,
                                        std::string_view who);
// Returns a new metric: what `asked` makes or, if that is empty, the accuracy of classes. Returns null
// when the loss alone judges: for labels that are arrays without `asked`, and when `asked` makes null
// or a metric::Loss.
std::unique_ptr<metric::MeanMetric> NewMetric(const metric::Factory& asked, const Dataset& data);
Judge JudgeOf(const metric::MeanMetric* metric);

// Runs two samples of zeros through `net` on every context, which fills in deferred shapes, and, with
// labels of zeros, through loss and metric. Throws Error(kInvalidArgument) when they do not fit each other.
void RequireFits(nn::Layer& net, const Dataset& data, const std::vector<Context>& contexts,
                 const nn::Loss& criterion, const metric::Factory& asked);
// Throws Error(kInvalidArgument) unless `losses` has one value for each sample.
void RequirePerSample(std::string_view call, const NDArray& losses, int64_t samples);

}  // namespace sluice::train
