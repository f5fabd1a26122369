#include "base/fork.h"

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice {
namespace {

std::atomic<int> threads = 0;

// Runs in every forked child, on the one thread that it has.
void NoteFork() {
  if (threads.exchange(0) > 0) internal::forked = true;
}

}  // namespace

namespace internal {

std::atomic<bool> forked = false;

void ThrowInForkedChild(std::string_view what) {
  throw Error(ErrorCode::kFailedPrecondition,
              StrCat(what,
                     ": this process was forked from one that uses Sluice and has none of its threads, so it "
                     "can only read arrays that were at rest; start it by exec (multiprocessing's start "
                     "methods \"forkserver\" and \"spawn\" do), or use Sluice in the child alone"));
}

void KeepForEver(std::shared_ptr<const void> object) {
  static auto* const kept = new std::vector<std::shared_ptr<const void>>;  // is never destroyed
  kept->push_back(std::move(object));
}

void ThreadBegins() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, NoteFork); });
  RequireNotForkedChild("a thread cannot be started");
  ++threads;
}

void ThreadEnds() noexcept {
  --threads;
}

}  // namespace internal
}  // namespace sluice
