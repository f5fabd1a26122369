// Refused memory as an error that says what it was for.
#pragma once

#include <new>
#include <stdexcept>

#include "base/limits.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice {

// What `make` returns. Error(kResourceExhausted), "no memory for ..." with `what`, where a container of its
// gets none, or is asked to be longer than any.
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
