// Turns refused memory into an error that says what the memory was for.
#pragma once

#include <new>
#include <stdexcept>

#include "base/limits.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice {

// Returns what `make` returns. Throws Error(kResourceExhausted), "no memory for ..." with `what`, when `make`
// throws std::bad_alloc or std::length_error (a container asked to be longer than any can be).
template <typename Make, typename... Args>
auto WithMemoryFor(Make&& make, const Args&... what) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  throw Error(ErrorCode::kResourceExhausted, StrCat("no memory for ", what..., "; ", MemoryLimitText()));
}

}  // namespace sluice
