#include "sluice/optimizer.h"

#include "optimizer/registry.h"
#include "optimizer/schedule.h"
#include "sluice/error.h"

namespace sluice {

double Optimizer::LearningRate(int64_t t) const {
  return LearningRateAt(config_.schedule, config_.learning_rate, t);
}

std::unique_ptr<const Optimizer> Optimizer::Create(const OptimizerConfig& config) {
  if (const std::string why = InvalidReason(config); !why.empty())
    throw Error(ErrorCode::kInvalidArgument, why);
  return FindOptimizerRow(config.kind)->make(config);
}

}  // namespace sluice
