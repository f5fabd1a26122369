// Proposes on which context each group of a network's layers should lie: neighbours together, the work even,
// within the memory of each context.
//
//   nn::Sequential layers = Network();       // as the network to be trained
//   const auto costs = MeasureGroups(layers, x, labels, nn::SoftmaxCrossEntropyLoss());
//   const PlacementPlan plan = PlanPlacement(costs, {cpu(0), cpu(1)}, {.micro_batches = 8});
//   std::cout << plan.ToText();
//   nn::PlacedSequential net(Network(), plan.placement());
//
// Thread safety: plans and costs are values; MeasureGroups as sluice/nn.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sluice/context.h"
#include "sluice/loss.h"
#include "sluice/ndarray.h"
#include "sluice/nn/container.h"
#include "sluice/nn/placement.h"

namespace sluice {

// What neighbouring layers of one group take.
struct GroupCost {
  std::string group;
  double seconds = 0;            // forward and backward of one micro-batch
  int64_t parameter_bytes = 0;   // weights, their gradients, and states of the optimiser
  int64_t activation_bytes = 0;  // what one micro-batch keeps from its forward to its backward
};

struct MeasureOptions {
  int repeats = 3;  // the fastest counts; there is another one before, which does not
  // Arrays that the optimiser keeps for each weight: 1 for momentum, 2 for adam.
  int64_t states_of_weight = 1;
};

// Runs one micro-batch forward and backward on x's context, group by group, and measures each; the loss
// counts to the last one. Parameters that are not initialised are initialised there. `x` and `labels` are as
// for Pipeline::Run. Gradients and running statistics change: give it a network of its own, all of which fits
// that context. Throws Error(kInvalidArgument) without layers and for repeats below 1, and what the layers
// and the loss throw.
std::vector<GroupCost> MeasureGroups(const nn::Sequential& layers, const NDArray& x, const NDArray& labels,
                                     const nn::Loss& loss, const MeasureOptions& options = {});

struct PlanOptions {
  // Those of the pipeline. Stage s of n, from 0, keeps the activations of at most n - s + 1 of them.
  int64_t micro_batches = 4;
  std::vector<int64_t> memory = {};  // by context, in bytes; empty: there is no bound
};

struct PlacementPlan {
  struct Stage {
    Context context;
    std::vector<std::string> groups;
    double seconds = 0;  // sums of the groups' costs
    int64_t parameter_bytes = 0;
    int64_t activation_bytes = 0;  // those of all micro-batches that it keeps
  };
  std::vector<Stage> stages;
  int64_t micro_batches = 1;

  nn::Placement placement() const;
  // Returns the time of a pipelined step, as a share of the step on one context, without the copies between
  // contexts: (m + n - 1) / m of the slowest stage's share, for m micro-batches and n stages.
  double ExpectedShare() const;
  // Returns a table with a line for each stage: its share of the work, its memory, its groups. No line has
  // more than 80 characters, unless the name of a group does.
  std::string ToText() const;
};

// Cuts the groups, in their order, into a stage for each context, or for as many as there are groups. The
// slowest stage takes as little time as possible; then the work is as even as possible. Groups whose layers
// lie between each other's stay together. Throws Error(kInvalidArgument) without groups or contexts, for a
// context that comes twice, and if `memory` has another length than `contexts`; Error(kResourceExhausted),
// which says what is needed, if no cut is within the memory.
PlacementPlan PlanPlacement(std::span<const GroupCost> costs, const std::vector<Context>& contexts,
                            const PlanOptions& options = {});

}  // namespace sluice
