#include "train/pipeline/schedule.h"

namespace sluice::train {

std::vector<PipelineStep> OneForwardOneBackward(size_t stages, size_t micro_batches) {
  struct Done {
    size_t forward = 0, backward = 0;
  };
  std::vector<Done> done(stages);
  std::vector<PipelineStep> steps;
  while (steps.size() < 2 * stages * micro_batches) {
    for (size_t stage = 0; stage < stages; ++stage) {
      Done& here = done[stage];
      const bool forward = here.forward < micro_batches && here.forward - here.backward < stages - stage;
      if (forward && (stage == 0 || here.forward < done[stage - 1].forward)) {
        steps.push_back({stage, here.forward++, PipelineStep::Direction::kForward});
      } else if (!forward && here.backward < here.forward &&
                 (stage + 1 == stages || here.backward < done[stage + 1].backward)) {
        steps.push_back({stage, here.backward++, PipelineStep::Direction::kBackward});
      }
    }
  }
  return steps;
}

}  // namespace sluice::train
