// Children that were forked and have not called exec. Such a child has a copy of the memory and none of the
// threads: what waits for a thread would wait for ever, and a lock that a thread held stays locked.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>
#include <utility>

namespace sluice {

namespace internal {
extern std::atomic<bool> forked;
[[noreturn]] void ThrowInForkedChild(std::string_view what);
void KeepForEver(std::shared_ptr<const void> object);
// Counts a thread from before it is started until it ends.
void ThreadBegins();
void ThreadEnds() noexcept;
}  // namespace internal

// Whether this process was forked while threads of the library ran (StartThread). It may read arrays that
// were at rest then. Memory that it gives back is lost, and what ends threads must be left (below).
inline bool InForkedChild() noexcept {
  return internal::forked.load(std::memory_order_relaxed);
}

// Throws Error(kFailedPrecondition), which says what to do, in such a child. `what` is what cannot be done.
inline void RequireNotForkedChild(std::string_view what) {
  if (InForkedChild()) internal::ThrowInForkedChild(what);
}

// Returns `object`, which such a child does not destroy.
template <typename T>
std::shared_ptr<T> LeftInForkedChild(std::shared_ptr<T> object) {
  T* const made = object.get();
  return {made, [object = std::move(object)](T*) mutable {
            if (InForkedChild()) internal::KeepForEver(std::move(object));
          }};
}

}  // namespace sluice
