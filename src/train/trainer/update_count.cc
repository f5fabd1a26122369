#include "train/trainer/update_count.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/strings.h"
#include "sluice/store_type.h"

namespace sluice::internal {

int64_t UpdateCount::Present() const {
  const auto first =
      std::ranges::find_if(tracked_, [](const TrackedParameter& tracked) { return !tracked.rests(); });
  if (first == tracked_.end()) return 0;
  if (local_update_ != nullptr) return local_update_->NumUpdates(first->name());
  return static_cast<int64_t>(store_.NumUpdates(first->keys.front())) /
         (StoreType::Parse(store_.type()).async ? store_.num_workers() : 1);
}

void UpdateCount::Agree(const std::optional<Error>& failure) {
  constexpr std::string_view kUpdates = "updates ";  // no error's message begins like this
  const bool knows = store_.rank() == 0 && !failure;
  const std::string word = store_.Agree(failure ? failure->what()
                                        : knows ? StrCat(kUpdates, Present())
                                                : std::string());
  if (failure) throw *failure;
  if (!word.starts_with(kUpdates)) throw Error(ErrorCode::kFailedPrecondition, word);
  std::from_chars(word.data() + kUpdates.size(), word.data() + word.size(), value_);
}

}  // namespace sluice::internal
