// The number of samples of a synthetic data set, and memory for them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/no_memory.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice {

// Returns `count`, or `by_default` if it is negative. Throws Error(kInvalidArgument) for 0 and above 2^40.
inline size_t RequiredCount(std::string_view who, int64_t count, int64_t by_default) {
  constexpr int64_t kMost = int64_t{1} << 40;
  if (count == 0 || count > kMost) {
    throw Error(ErrorCode::kInvalidArgument, StrCat(who, ": count is ", count, "; expected 1 to ", kMost));
  }
  return static_cast<size_t>(count < 0 ? by_default : count);
}

// Returns memory for `count` samples of `sample_size` values. Throws Error(kResourceExhausted) if there
// is none.
template <typename T>
std::vector<T> RoomForSamples(std::string_view who, size_t count, size_t sample_size) {
  return WithMemoryFor([&] { return std::vector<T>(count * sample_size); }, who, "'s ", count, " samples of ",
                       sample_size * sizeof(T), " bytes; ask for fewer");
}

}  // namespace sluice
