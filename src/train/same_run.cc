#include "train/same_run.h"

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::train {
namespace {

bool MayStop(const FitOptions& options) {
  return std::ranges::any_of(options.callbacks, [](const CallbackPtr& call) { return call->MayStop(); });
}

// There may be more of them than a word can bring.
std::string DigestOf(const std::vector<double>& values) {
  uint64_t digest = values.size();
  for (const double value : values) digest = DeriveSeed(digest, std::bit_cast<uint64_t>(value));
  return values.empty() ? "none" : StrCat(values.size(), " of digest ", digest);
}

// A line each; which ones there are depends on the first two alone.
std::string TraitsOf(const FitOptions& options, const Batching& batching, std::string_view store) {
  const bool may_stop = MayStop(options);
  std::string text = StrCat("the store's type: ", store,
                            "\na callback that may stop the run: ", may_stop ? "there is one" : "none");
  if (store.ends_with("async") && !may_stop) return text;
  return StrCat(text, "\nnum_epochs: ", options.num_epochs, "\nnum_steps: ", options.num_steps,
                "\nbatch_size: ", options.batch_size, "\nthe number of samples: ", batching.num_samples,
                "\nlast_batch: ", Name(batching.last_batch),
                "\nclass_weights: ", DigestOf(batching.class_weights),
                "\nshuffle: ", options.shuffle ? "true" : "false", "\nseed: ", options.seed,
                "\neval_steps: ", options.eval_steps, "\nclip_global_norm: ", options.clip_global_norm,
                "\nstart.epoch: ", options.start.epoch, "\nstart.step: ", options.start.step,
                "\nstart_step: ", options.start_step);
}

}  // namespace

void RequireSameRun(const FitOptions& options, const Batching& batching, KVStore& store) {
  const std::string own = TraitsOf(options, batching, store.type()), first = store.Agree(own);
  if (own == first) return;
  const std::vector<std::string> mine = StrSplit(own, '\n'), theirs = StrSplit(first, '\n');
  const auto [here, there] = std::ranges::mismatch(mine, theirs);
  throw Error(ErrorCode::kInvalidArgument,
              StrCat("Fit: worker ", store.rank(), " has ", here == mine.end() ? "nothing" : *here,
                     ", worker 0 ", there == theirs.end() ? "nothing" : there->substr(there->find(": ") + 2),
                     ": start all workers with the same flags and data"));
}

}  // namespace sluice::train
