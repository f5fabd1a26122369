// What a run is judged by, and whether a network, its loss and its metric fit the data. Internal to train/.
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

// What was asked for, else the softmax cross-entropy of classes. Throws Error(kInvalidArgument) for none
// where labels are arrays: which loss they are for nobody else knows. `who` begins the message.
std::shared_ptr<const nn::Loss> LossFor(const std::shared_ptr<const nn::Loss>& asked, const Dataset& data,
                                        std::string_view who);
// A new metric: what was asked for, else the accuracy of classes; null where the loss alone counts, which
// metric::Loss says, too.
std::unique_ptr<metric::MeanMetric> NewMetric(const metric::Factory& asked, const Dataset& data);
Judge JudgeOf(const metric::MeanMetric* metric);

// Two samples of zeros forward on every context, so that parameters learn their shapes, and with labels of
// zeros through loss and metric. Throws Error(kInvalidArgument) for what does not fit.
void RequireFits(nn::Layer& net, const Dataset& data, const std::vector<Context>& contexts,
                 const nn::Loss& criterion, const metric::Factory& asked);
// Throws Error(kInvalidArgument) unless there is one value for each sample.
void RequirePerSample(const NDArray& losses, int64_t samples);

}  // namespace sluice::train
