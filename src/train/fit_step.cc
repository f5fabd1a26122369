// FitStep: the batch is cut over the contexts of a process, or over the micro-batches of a pipeline.
// Gradients are pushed while the rest of the backward pass is under way. Fit, which owns it, calls it on its
// thread. The parts of a batch are in the order of contexts, or of micro-batches, whatever ends first.
#include "train/fit_step.h"

#include <utility>

#include "base/strings.h"
#include "sluice/autograd.h"
#include "sluice/error.h"
#include "sluice/split.h"
#include "train/scoring.h"
#include "train/shards.h"

namespace sluice::train {
namespace {

[[noreturn]] void ThrowInvalid(std::string_view call, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, StrCat(call, ": ", why));
}

// Returns null for micro_batches = 0.
std::optional<Pipeline> PipelineFor(nn::Layer& net, const std::shared_ptr<const nn::Loss>& criterion,
                                    int64_t micro_batches) {
  if (micro_batches == 0) return std::nullopt;
  if (micro_batches < 0)
    ThrowInvalid("Fit", StrCat("micro_batches is ", micro_batches, "; 0 means no pipeline"));
  auto* const placed = dynamic_cast<nn::PlacedSequential*>(&net);
  if (placed == nullptr) {
    ThrowInvalid("Fit", StrCat("micro_batches is ", micro_batches, ", and the network is a ", net.kind(),
                               ": only a PlacedSequential is run as a pipeline"));
  }
  return std::optional<Pipeline>(std::in_place, *placed, criterion, PipelineOptions{micro_batches});
}

}  // namespace

FitStep::FitStep(nn::Layer& net, std::shared_ptr<const nn::Loss> criterion, const FitOptions& options)
    : net_(net),
      criterion_(std::move(criterion)),
      options_(options),
      contexts_(ContextsOf(net, options.contexts, "Fit")),
      pipeline_(PipelineFor(net, criterion_, options.micro_batches)) {}

StepResult FitStep::Run(const Batch& batch, int64_t step, Trainer& trainer) {
  BeforeBackward(batch, trainer);
  StepResult result{.size = batch.size()};
  if (batch.size() > 0) pipeline_ ? RunPipeline(batch, step, &result) : ForwardBackward(batch, step, &result);
  Update(batch, trainer);
  for (NDArray& array : result.predictions) array.set_node(nullptr);
  for (NDArray& array : result.losses) array.set_node(nullptr);
  return result;
}

void FitStep::BeforeBackward(const Batch& batch, Trainer& trainer) const {
  for (const auto& parameter : parameters_) {
    if (parameter->grad_req() == autograd::GradReq::kAdd) parameter->ZeroGrad();
  }
  if (clips()) return trainer.PushDuringBackward(batch.global_size);
  trainer.PushSamplesDuringBackward(static_cast<uint64_t>(batch.size()));
}

void FitStep::ForwardBackward(const Batch& batch, int64_t step, StepResult* result) {
  // Work loads are for full batches: of a smaller batch, at the end of an epoch, a device with a small load
  // could get nothing.
  const bool full = batch.size() == options_.batch_size;
  Shards shards = Load(batch, contexts_, full ? options_.work_load : std::vector<double>());
  {
    // What dropout drops depends on the sample alone, not on the device that has it.
    const autograd::RecordScope record({.seed = options_.seed, .step = static_cast<uint64_t>(step)});
    auto first = static_cast<uint64_t>(batch.first);
    for (size_t i = 0; i < shards.images.size(); ++i) {
      const autograd::SampleScope samples(first);
      const int64_t samples_here = shards.images[i].shape()[0];
      first += static_cast<uint64_t>(samples_here);
      const NDArray& predictions = result->predictions.emplace_back(net_(shards.images[i]));
      shards.labels[i] = shards.labels[i].AsInContext(predictions.context());
      result->losses.push_back((*criterion_)(predictions, shards.labels[i]));
      RequirePerSample("Fit", result->losses.back(), samples_here);
    }
  }
  result->labels = std::move(shards.labels);
  autograd::Backward(result->losses);
}

void FitStep::RunPipeline(const Batch& batch, int64_t step, StepResult* result) {
  const Shards whole = Load(batch, contexts_, {});
  const autograd::SampleScope samples(static_cast<uint64_t>(batch.first));
  Pipeline::Result done = pipeline_->Run(whole.images.front(), whole.labels.front(),
                                         {.seed = options_.seed, .step = static_cast<uint64_t>(step)});
  result->labels = SplitData(whole.labels.front().AsInContext(done.predictions.front().context()),
                             static_cast<int64_t>(done.predictions.size()), /*even_split=*/false);
  result->predictions = std::move(done.predictions);
  result->losses = std::move(done.losses);
}

void FitStep::Update(const Batch& batch, Trainer& trainer) const {
  if (!clips()) return trainer.StepSamples(static_cast<uint64_t>(batch.size()));
  trainer.ZeroStaleGrads();
  trainer.Step(batch.global_size);
}

}  // namespace sluice::train
