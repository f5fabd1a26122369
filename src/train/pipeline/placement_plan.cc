// PlanPlacement: groups that cannot be taken apart become units; every cut of the units into stages is looked
// at by dynamic programming, in time quadratic in the units for each stage. First the time of the slowest
// stage is made least, then, among the cuts that have it, the sum of the squares of the stages' times.
// It keeps no state, so any thread may call it; training programs do, with what MeasureGroups has returned.
#include "sluice/placement_plan.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

[[noreturn]] void RefusePlan(const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, StrCat("PlanPlacement: ", why));
}

using Stage = PlacementPlan::Stage;

void AddTo(Stage* stage, const Stage& more) {
  for (const std::string& group : more.groups)
    if (std::ranges::find(stage->groups, group) == stage->groups.end()) stage->groups.push_back(group);
  stage->seconds += more.seconds;
  stage->parameter_bytes += more.parameter_bytes;
  stage->activation_bytes += more.activation_bytes;  // one micro-batch's, until the plan is made
}

// A unit is one group, or all from the first layer of a group to its last.
std::vector<Stage> UnitsOf(std::span<const GroupCost> costs) {
  std::vector<Stage> units;
  for (size_t i = 0; i < costs.size();) {
    size_t end = i + 1;  // the end of the unit
    Stage unit;
    for (; i < end; ++i) {
      const GroupCost& cost = costs[i];
      for (size_t later = end; later < costs.size(); ++later)
        if (costs[later].group == cost.group) end = later + 1;
      AddTo(&unit, {{}, {cost.group}, cost.seconds, cost.parameter_bytes, cost.activation_bytes});
    }
    units.push_back(std::move(unit));
  }
  return units;
}

class Cutter {
 public:
  Cutter(const std::vector<Stage>& units, size_t stages, const PlanOptions& options)
      : units_(units), stages_(stages), options_(options) {}

  // Returns where the stages end, or nothing if the memory is too little for any cut.
  std::optional<std::vector<size_t>> Cut() const {
    const auto slowest = [](double before, double seconds) { return std::max(before, seconds); };
    const auto squares = [](double before, double seconds) { return before + seconds * seconds; };
    const double least = Best(kNone, slowest).first;
    if (least == kNone) return std::nullopt;
    return Best(least, squares).second;
  }

  int64_t MicroBatchesKept(size_t stage) const {
    return std::min(options_.micro_batches, static_cast<int64_t>(stages_ - stage + 1));
  }

 private:
  // Returns the least value and its cut. `join` gives the value of the stages up to one, from that of those
  // before and the one's seconds, which are at most `bound`.
  template <typename Join>
  std::pair<double, std::vector<size_t>> Best(double bound, Join join) const {
    const size_t n = units_.size();
    std::vector<double> best(n + 1, kNone);  // by the number of units in the stages so far
    best[0] = 0;
    std::vector<std::vector<size_t>> begins;  // by stage and its end
    for (size_t stage = 0; stage < stages_; ++stage) {
      std::vector<double> next(n + 1, kNone);
      std::vector<size_t>& begin_of = begins.emplace_back(n + 1);
      for (size_t begin = 0; begin < n; ++begin) {
        if (best[begin] == kNone) continue;
        Stage sum;
        for (size_t end = begin + 1; end <= n; ++end) {
          Add(&sum, units_[end - 1]);
          if (sum.seconds > bound || !HasRoom(stage, sum)) break;  // more units take no less
          const double value = join(best[begin], sum.seconds);
          if (value >= next[end]) continue;
          next[end] = value;
          begin_of[end] = begin;
        }
      }
      best = std::move(next);
    }
    std::vector<size_t> ends;
    if (best[n] != kNone) {
      size_t end = n;
      for (size_t stage = stages_; stage-- > 0; end = begins[stage][end]) ends.insert(ends.begin(), end);
    }
    return {best[n], std::move(ends)};
  }

  static void Add(Stage* sum, const Stage& unit) {
    sum->seconds += unit.seconds;
    sum->parameter_bytes += unit.parameter_bytes;
    sum->activation_bytes += unit.activation_bytes;
  }

  bool HasRoom(size_t stage, const Stage& sum) const {
    if (options_.memory.empty()) return true;
    return sum.parameter_bytes + sum.activation_bytes * MicroBatchesKept(stage) <= options_.memory[stage];
  }

  const std::vector<Stage>& units_;
  const size_t stages_;
  const PlanOptions& options_;
};

void Require(std::span<const GroupCost> costs, const std::vector<Context>& contexts,
             const PlanOptions& options) {
  if (costs.empty()) RefusePlan("there are no groups");
  if (contexts.empty()) RefusePlan("there are no contexts; cpu(0) is one");
  std::set<Context> seen;
  for (const Context& context : contexts)
    if (!seen.insert(context).second) RefusePlan(StrCat(context, " comes twice among the contexts"));
  if (!options.memory.empty() && options.memory.size() != contexts.size())
    RefusePlan(StrCat("memory has ", options.memory.size(), " bounds for ", contexts.size(), " contexts"));
  if (options.micro_batches < 1)
    RefusePlan(StrCat("micro_batches is ", options.micro_batches, "; it must be at least 1"));
  for (const GroupCost& cost : costs) {
    const bool valid = cost.seconds >= 0 && std::isfinite(cost.seconds) && cost.parameter_bytes >= 0 &&
                       cost.activation_bytes >= 0;
    if (!valid) RefusePlan(StrCat("the cost of the group '", cost.group, "' is negative or not finite"));
  }
}

[[noreturn]] void ThrowNoRoom(const std::vector<Stage>& units, const std::vector<Context>& contexts,
                              const PlanOptions& options) {
  Stage all;
  for (const Stage& unit : units) AddTo(&all, unit);
  std::string bounds;
  for (size_t i = 0; i < contexts.size(); ++i) {
    bounds += StrCat(i > 0 ? ", " : "", contexts[i], " ",
                     HumanBytes(static_cast<uint64_t>(std::max<int64_t>(0, options.memory[i]))));
  }
  throw Error(
      ErrorCode::kResourceExhausted,
      StrCat("PlanPlacement: no cut is within the memory (", bounds, "): the parameters take ",
             HumanBytes(static_cast<uint64_t>(all.parameter_bytes)), ", the activations of a micro-batch ",
             HumanBytes(static_cast<uint64_t>(all.activation_bytes)),
             "; take more contexts or smaller micro-batches"));
}

double Slowest(const std::vector<Stage>& stages) {
  double slowest = 0;
  for (const Stage& stage : stages) slowest = std::max(slowest, stage.seconds);
  return slowest;
}
double SecondsOf(const std::vector<Stage>& stages) {
  return std::accumulate(stages.begin(), stages.end(), 0.0,
                         [](double sum, const Stage& stage) { return sum + stage.seconds; });
}

}  // namespace

PlacementPlan PlanPlacement(std::span<const GroupCost> costs, const std::vector<Context>& contexts,
                            const PlanOptions& options) {
  Require(costs, contexts, options);
  const std::vector<Stage> units = UnitsOf(costs);
  const Cutter cutter(units, std::min(units.size(), contexts.size()), options);
  const auto ends = cutter.Cut();
  if (!ends) ThrowNoRoom(units, contexts, options);
  PlacementPlan plan{.stages = {}, .micro_batches = options.micro_batches};
  size_t unit = 0;
  for (size_t i = 0; i < ends->size(); ++i) {
    Stage& stage = plan.stages.emplace_back();
    stage.context = contexts[i];
    for (; unit < (*ends)[i]; ++unit) AddTo(&stage, units[unit]);
    stage.activation_bytes *= cutter.MicroBatchesKept(i);
  }
  return plan;
}

nn::Placement PlacementPlan::placement() const {
  nn::Placement placement;
  for (const Stage& stage : stages)
    for (const std::string& group : stage.groups) placement.Set(group, stage.context);
  return placement;
}

double PlacementPlan::ExpectedShare() const {
  const double seconds = SecondsOf(stages);
  if (seconds == 0) return 1;
  const auto m = static_cast<double>(micro_batches), n = static_cast<double>(stages.size());
  return (m + n - 1) / m * Slowest(stages) / seconds;
}

std::string PlacementPlan::ToText() const {
  constexpr size_t kColumns = 80, kBefore = 46;  // the groups come last, behind so many characters
  const double seconds = SecondsOf(stages);
  std::ostringstream out;
  out << std::left << std::setw(10) << "context" << std::right << std::setw(6) << "work" << std::setw(14)
      << "parameters" << std::setw(14) << "activations"
      << "  groups\n";
  for (const Stage& stage : stages) {
    const double share = seconds > 0 ? 100 * stage.seconds / seconds : 0;
    out << std::left << std::setw(10) << stage.context.ToString() << std::right << std::setw(4)
        << std::lround(share) << " %" << std::setw(14)
        << HumanBytes(static_cast<uint64_t>(stage.parameter_bytes)) << std::setw(14)
        << HumanBytes(static_cast<uint64_t>(stage.activation_bytes)) << "  "
        << StrWrap(StrJoin(stage.groups, " "), kColumns, kBefore, kBefore) << '\n';
  }
  out << "expected: a step of " << micro_batches << " micro-batches takes " << std::fixed
      << std::setprecision(2) << ExpectedShare() << " of one on one context\n";
  if (stages.size() > 1 && ExpectedShare() >= 1)
    out << "this cut gains nothing: the groups are too few or too unlike, or the micro-batches too few\n";
  return out.str();
}

}  // namespace sluice
