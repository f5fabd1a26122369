// A training step of a network whose layers lie on several contexts, as a pipeline: the batch is cut into
// micro-batches, and while one context works on one of them, the next context works on the one before.
//
//   Pipeline pipeline(net, std::make_shared<nn::SoftmaxCrossEntropyLoss>(), {.micro_batches = 8});
//   Trainer trainer(net.CollectParams(), {.learning_rate = 0.1}, store);
//   pipeline.Run(x, labels);   // forward and backward
//   trainer.Step(batch_size);
//
// The schedule is 1F1B (Narayanan et al. 2019, "PipeDream", with one version of the weights): each stage goes
// back as soon as it can. Stage s of n, from 0, holds the activations of at most n - s + 1 micro-batches: one
// more than it works on, so that it does not wait for the thread that issues.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sluice/autograd.h"
#include "sluice/loss.h"
#include "sluice/ndarray.h"
#include "sluice/nn/placement.h"

namespace sluice {

struct PipelineOptions {
  // Equal parts of a batch, but for one sample. A batch of fewer samples has as many parts as samples.
  int64_t micro_batches = 4;
};

class Pipeline {
 public:
  // `net` must outlive the pipeline. Throws Error(kInvalidArgument) if `loss` is null or a mean over samples,
  // or micro_batches is below 1.
  Pipeline(nn::PlacedSequential& net, std::shared_ptr<const nn::Loss> loss, PipelineOptions options = {});

  struct Result {
    // By micro-batch, in the order of the samples, on the context of the last stage.
    std::vector<NDArray> predictions, losses;
  };
  // Issues forward and backward of a batch and returns. The gradients are then the sums over the batch, up
  // to the rounding of sums; what they were before is dropped. Parameters with a gradient accumulate from
  // then on (GradReq::kAdd). Dropout chooses the elements that it would choose for the whole batch, if the
  // first axis of what it gets is the batch; batch normalisation takes its statistics from each micro-batch.
  // `x` and `labels` [batch, ...] may lie on any context; they get no gradient. Throws
  // Error(kInvalidArgument) if they do not have the same number of samples, or none, or if the loss does not
  // give one value for each sample, and what the layers and the loss throw.
  Result Run(const NDArray& x, const NDArray& labels, const autograd::RecordOptions& record = {});

 private:
  nn::PlacedSequential& net_;
  const std::shared_ptr<const nn::Loss> loss_;
  const PipelineOptions options_;
  const std::vector<bool> adds_later_;  // by stage: whether a later backward adds to its gradients
};

}  // namespace sluice
