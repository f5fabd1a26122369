// Compares, over the store, what all workers of a run must agree on.
//
// Every worker lists its traits as lines of text and compares them with rank 0's, which Agree, a
// barrier, brings to all; each worker that differs throws. Agree's texts are at most 64 KiB long, so
// lists are compared by their digests. Fit and the example programs call this before the first step, on
// the training thread.
#include "train/same_run.h"

#include <algorithm>

#include "base/hash.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "sluice/store_type.h"

namespace sluice::train {
namespace {

bool MayStop(const FitOptions& options) {
  return std::ranges::any_of(options.callbacks, [](const CallbackPtr& call) { return call->MayStop(); });
}

// Returns the number of a list's entries and a digest of its text. Lists themselves may be longer than
// KVStore::Agree allows.
std::string DigestOf(size_t count, const std::string& text) {
  return count == 0 ? "none" : StrCat(count, " of digest ", Fnv1a(text));
}

void AddData(const FitOptions& options, const Batching& batching, Traits* traits) {
  const auto& weights = batching.class_weights;
  traits->insert(traits->end(), {{"the number of samples", StrCat(batching.num_samples)},
                                 {"batch_size", StrCat(options.batch_size)},
                                 {"last_batch", StrCat(Name(batching.last_batch))},
                                 {"class_weights", DigestOf(weights.size(), StrJoin(weights))},
                                 {"shuffle", options.shuffle ? "true" : "false"},
                                 {"seed", StrCat(options.seed)}});
}

void AddSchedule(const LrSchedule& s, Traits* traits) {
  traits->emplace_back("the schedule",
                       StrCat(static_cast<int>(s.kind), " (kind), factor ", s.factor, ", step ", s.step,
                              ", stop_factor_lr ", s.stop_factor_lr, ", max_update ", s.max_update,
                              ", final_lr ", s.final_lr, ", power ", s.power));
  traits->emplace_back("the schedule's steps", DigestOf(s.steps.size(), StrJoin(s.steps)));
  traits->emplace_back("the warm-up", StrCat(s.warmup_steps, " steps from ", s.warmup_begin_lr, ", mode ",
                                             static_cast<int>(s.warmup_mode)));
}

void AddOptimizer(const OptimizerConfig& config, Traits* traits) {
  const OptimizerConfig c = Resolved(config);
  std::string multipliers;
  for (const auto& [key, by] : c.multipliers)
    multipliers += StrCat(key, ' ', by.lr_mult, ' ', by.wd_mult, '\n');
  traits->emplace_back("optimizer", StrCat(Name(c.kind)));
  for (const auto& [name, value] : {std::pair("learning_rate", c.learning_rate),
                                    {"momentum", c.momentum},
                                    {"wd", c.wd},
                                    {"clip_gradient", c.clip_gradient},
                                    {"rescale_grad", c.rescale_grad},
                                    {"beta1", c.beta1},
                                    {"beta2", c.beta2},
                                    {"epsilon", c.epsilon},
                                    {"rho", c.rho},
                                    {"centered", static_cast<double>(c.centered)},
                                    {"lambda1", c.lambda1},
                                    {"beta", c.beta},
                                    {"lower_bound", c.lower_bound},
                                    {"upper_bound", c.upper_bound},
                                    {"wd_lh", c.wd_lh},
                                    {"multi_precision", static_cast<double>(c.multi_precision)}})
    traits->emplace_back(name, StrCat(value));
  traits->emplace_back("multipliers", DigestOf(c.multipliers.size(), multipliers));
  AddSchedule(c.schedule, traits);
}

// Adds what decides after which steps the workers meet at barriers.
void AddBarriers(const FitOptions& options, Traits* traits) {
  traits->insert(traits->end(), {{"num_epochs", StrCat(options.num_epochs)},
                                 {"num_steps", StrCat(options.num_steps)},
                                 {"eval_steps", StrCat(options.eval_steps)},
                                 {"clip_global_norm", StrCat(options.clip_global_norm)},
                                 {"start.epoch", StrCat(options.start.epoch)},
                                 {"start.step", StrCat(options.start.step)},
                                 {"start_step", StrCat(options.start_step)}});
}

}  // namespace

void RequireAlike(std::string_view who, const Traits& traits, KVStore& store) {
  std::string own = StrCat(who, ": \n");
  for (const auto& [name, text] : traits) own += StrCat(name, ": ", text, '\n');
  const std::string first = store.Agree(own);
  if (own == first) return;
  const std::vector<std::string> mine = StrSplit(own, '\n'), theirs = StrSplit(first, '\n');
  const auto [here, there] = std::ranges::mismatch(mine, theirs);
  const auto text = [](auto line, const auto& lines) { return line == lines.end() ? std::string() : *line; };
  throw Error(ErrorCode::kInvalidArgument,
              StrCat(who, ": worker ", store.rank(), " has ", text(here, mine), ", worker 0 ",
                     text(there, theirs), ": start all workers with the same flags and data"));
}

void RequireSameRun(const FitOptions& options, const OptimizerConfig& optimizer, const Batching& batching,
                    const Traits& more, KVStore& store) {
  const bool may_stop = MayStop(options);
  // These two come first, since they decide which of the other traits are compared.
  Traits traits = {{"the store's type", store.type()},
                   {"a callback that may stop the run", may_stop ? "there is one" : "none"}};
  AddData(options, batching, &traits);
  traits.insert(traits.end(), more.begin(), more.end());
  AddOptimizer(optimizer, &traits);
  if (!StoreType::Parse(store.type()).async || may_stop) AddBarriers(options, &traits);
  RequireAlike("Fit", traits, store);
}

}  // namespace sluice::train
