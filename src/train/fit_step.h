// One step of Fit: forward, backward, and the update. Internal to train/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sluice/data.h"
#include "sluice/fit.h"
#include "sluice/loss.h"
#include "sluice/nn.h"
#include "sluice/pipeline.h"
#include "sluice/trainer.h"
#include "train/epoch_score.h"

namespace sluice::train {

class FitStep {
 public:
  // Throws Error(kInvalidArgument) if options.micro_batches does not suit the network or the loss.
  FitStep(nn::Layer& net, std::shared_ptr<const nn::Loss> criterion, const FitOptions& options);

  const std::vector<Context>& contexts() const { return contexts_; }  // to which batches are copied
  // Trains on a batch, which may be empty. `step` is the number of steps done before.
  StepResult Run(const Batch& batch, int64_t step, Trainer& trainer);

 private:
  void BeforeBackward(const Batch& batch, Trainer& trainer) const;
  void ForwardBackward(const Batch& batch, int64_t step, StepResult* result);
  void RunPipeline(const Batch& batch, int64_t step, StepResult* result);
  void Update(const Batch& batch, Trainer& trainer) const;
  bool clips() const { return options_.clip_global_norm != 0; }

  nn::Layer& net_;
  const nn::ParameterDict parameters_ = net_.CollectParams();
  const std::shared_ptr<const nn::Loss> criterion_;
  const FitOptions& options_;
  const std::vector<Context> contexts_;
  std::optional<Pipeline> pipeline_;
};

}  // namespace sluice::train
