#include "sluice/optimizer.h"

#include "base/strings.h"
#include "optimizer/schedule.h"
#include "optimizer/typed.h"
#include "sluice/error.h"

namespace sluice {

double Optimizer::LearningRate(int64_t t) const {
  return LearningRateAt(config_.schedule, config_.learning_rate, t);
}

std::unique_ptr<const Optimizer> Optimizer::Create(const OptimizerConfig& config) {
  if (const std::string why = WhyInvalid(config); !why.empty()) throw Error(ErrorCode::kInvalidArgument, why);
  switch (config.kind) {
    case OptimizerKind::kSgd:
      return MakeSgd(config);
    case OptimizerKind::kNag:
      return MakeNag(config);
    case OptimizerKind::kAdam:
      return MakeAdam(config);
    case OptimizerKind::kAccumulate:
      return MakeAccumulate(config);
    case OptimizerKind::kAdamW:
      return MakeAdamW(config);
    case OptimizerKind::kAdaGrad:
      return MakeAdaGrad(config);
    case OptimizerKind::kRmsProp:
      return MakeRmsProp(config);
    case OptimizerKind::kFtrl:
      return MakeFtrl(config);
    case OptimizerKind::kLamb:
      return MakeLamb(config);
    case OptimizerKind::kSignum:
      return MakeSignum(config);
  }
  throw Error(ErrorCode::kInvalidArgument,
              StrCat("optimiser kind ", static_cast<int>(config.kind), " is unknown"));
}

}  // namespace sluice
