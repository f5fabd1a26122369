// Pipeline: one step, stage by stage and micro-batch by micro-batch, in the order of schedule.h. A stage's
// input is a variable of its own if the stage before has a gradient: its gradient is the head gradient there.
// Invariant: what a stage keeps of a micro-batch is dropped when that has gone back, and the caller's thread
// is at most one micro-batch ahead of that. The caller's thread issues everything; the contexts' streams run
// it, each in the order of issue, and wait for each other's arrays.
#include "sluice/pipeline.h"

#include <algorithm>
#include <set>
#include <utility>

#include "autograd/pass_scope.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "sluice/split.h"
#include "tensor/access.h"
#include "tensor/storage.h"
#include "train/pipeline/schedule.h"
#include "train/scoring.h"

namespace sluice {
namespace {

[[noreturn]] void ThrowInvalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

// The step of one batch.
class PipelinedBatch {
 public:
  PipelinedBatch(nn::PlacedSequential& net, const nn::Loss& loss, const std::vector<bool>& adds_later,
                 std::vector<NDArray> x, std::vector<NDArray> labels)
      : net_(net),
        loss_(loss),
        adds_later_(adds_later),
        x_(std::move(x)),
        labels_(std::move(labels)),
        heads_(x_.size()),
        kept_(net.stages().size(), std::vector<Kept>(x_.size())),
        ends_(net.stages().size(), std::vector<Event>(x_.size())) {
    uint64_t first = autograd::CurrentDraw().first_sample;
    for (const NDArray& part : x_) {
      first_samples_.push_back(first);
      first += static_cast<uint64_t>(part.shape()[0]);
    }
    result_.predictions.resize(x_.size());
    result_.losses.resize(x_.size());
  }

  Pipeline::Result Run() {
    for (const train::PipelineStep& step : train::OneForwardOneBackward(kept_.size(), x_.size())) {
      if (step.direction == train::PipelineStep::Direction::kForward) {
        Forward(step.stage, step.micro_batch);
      } else {
        Backward(step.stage, step.micro_batch);
      }
    }
    return std::move(result_);
  }

 private:
  struct Kept {
    NDArray input, output;
  };

  // Arrays are allocated when an operation is issued: without a wait all micro-batches would have theirs.
  void AwaitRoom(size_t stage, size_t i) {
    constexpr Duration kPatience = 1s;  // as IssueThrottle has it
    const size_t ahead = kept_.size() - stage + 1;
    if (i >= ahead) ends_[stage][i - ahead].DoneWithin(kPatience);
  }

  void Forward(size_t stage, size_t i) {
    AwaitRoom(stage, i);
    const autograd::SampleScope samples(first_samples_[i]);
    Kept& kept = kept_[stage][i];
    kept.input = InputOf(stage, i);
    kept.output = net_.ForwardStage(stage, kept.input);
    if (stage + 1 < kept_.size()) return;
    result_.predictions[i] = kept.output.Detach();
    kept.output = loss_(kept.output, labels_[i].AsInContext(kept.output.context()));
    train::RequirePerSample("Pipeline", kept.output, x_[i].shape()[0]);
    result_.losses[i] = kept.output.Detach();
  }

  // A stage behind the first one starts a graph of its own.
  NDArray InputOf(size_t stage, size_t i) {
    const Context context = net_.stages()[stage].context;
    if (stage == 0) return x_[i].AsInContext(context);
    const NDArray& below = kept_[stage - 1][i].output;
    NDArray input = below.Detach().AsInContext(context);
    if (below.node() != nullptr) autograd::AttachGrad(input);
    return input;
  }

  void Backward(size_t stage, size_t i) {
    Kept kept = std::exchange(kept_[stage][i], {});
    const NDArray head = std::exchange(heads_[i], {});
    const autograd::LastAdditionScope last(i + 1 == x_.size() && !adds_later_[stage]);
    if (stage + 1 == kept_.size()) {
      autograd::Backward(kept.output);
    } else if (head.valid() && kept.output.node() != nullptr) {
      autograd::Backward(kept.output, head.AsInContext(kept.output.context()));
    } else {
      return;  // no gradient gets here, or none leaves
    }
    if (stage > 0 && kept.input.node() != nullptr) heads_[i] = autograd::Grad(kept.input);
    ends_[stage][i] = EnqueueOn(net_.stages()[stage].context, "a stage's backward", {}, [] {});
  }

  nn::PlacedSequential& net_;
  const nn::Loss& loss_;
  const std::vector<bool>& adds_later_;    // by stage: whether one before it has a parameter of it
  const std::vector<NDArray> x_, labels_;  // by micro-batch
  std::vector<uint64_t> first_samples_;    // by micro-batch
  std::vector<NDArray> heads_;  // by micro-batch: the gradient by the input of the stage that has gone back
  std::vector<std::vector<Kept>> kept_;   // by stage and micro-batch
  std::vector<std::vector<Event>> ends_;  // by stage and micro-batch: of the backward
  Pipeline::Result result_;
};

// By stage: whether a stage before it, which goes back after it, has a parameter of it.
std::vector<bool> StagesThatShareBefore(const nn::PlacedSequential& net) {
  std::vector<bool> shares;
  std::set<std::shared_ptr<nn::Parameter>> before;
  for (size_t stage = 0; stage < net.stages().size(); ++stage) {
    const nn::ParameterDict parameters = net.CollectStageParams(stage);
    shares.push_back(std::ranges::any_of(parameters, [&](const auto& p) { return before.contains(p); }));
    before.insert(parameters.begin(), parameters.end());
  }
  return shares;
}

}  // namespace

Pipeline::Pipeline(nn::PlacedSequential& net, std::shared_ptr<const nn::Loss> loss, PipelineOptions options)
    : net_(net), loss_(std::move(loss)), options_(options), adds_later_(StagesThatShareBefore(net)) {
  if (loss_ == nullptr) ThrowInvalid("Pipeline: the loss is a null pointer");
  if (options_.micro_batches < 1)
    ThrowInvalid(StrCat("Pipeline: micro_batches is ", options_.micro_batches, "; it must be at least 1"));
  if (loss_->reduction() != nn::Reduction::kPerSample)
    ThrowInvalid(
        "Pipeline: the loss is a mean over samples, which a micro-batch does not know; it must give a value "
        "for each sample (Reduction::kPerSample)");
}

Pipeline::Result Pipeline::Run(const NDArray& x, const NDArray& labels,
                               const autograd::RecordOptions& record) {
  if (net_.stages().empty())
    throw Error(ErrorCode::kFailedPrecondition, "Pipeline::Run: the network has been moved from");
  internal::RequireArray("Pipeline::Run", "the input", x);
  internal::RequireArray("Pipeline::Run", "the array of labels", labels);
  const bool scalar = x.shape().ndim() == 0 || labels.shape().ndim() == 0;
  if (scalar || x.shape()[0] != labels.shape()[0] || x.shape()[0] == 0) {
    ThrowInvalid(StrCat("Pipeline::Run: input ", x.shape(), " and labels ", labels.shape(),
                        " must have the same number of samples, at least 1"));
  }
  const int64_t parts = std::min(options_.micro_batches, x.shape()[0]);
  const autograd::PassScope pass;
  const nn::ParameterDict parameters = net_.CollectParams();
  for (const auto& parameter : parameters)
    if (parameter->grad_req() == autograd::GradReq::kWrite) parameter->SetGradReq(autograd::GradReq::kAdd);
  parameters.ZeroGrad();
  const autograd::RecordScope recording(record);
  return PipelinedBatch(net_, *loss_, adds_later_, SplitData(x.Detach(), parts, false),
                        SplitData(labels.Detach(), parts, false))
      .Run();
}

}  // namespace sluice
