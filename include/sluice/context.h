// A context is the device on which an array lies and on which operations on it run.
#pragma once

#include <compare>
#include <cstdint>
#include <ostream>
#include <string>

#include "sluice/error.h"

namespace sluice {

enum class DeviceKind : uint8_t { kCpu, kGpu, kCpuPinned };

// A device of this machine. cpu(0), cpu(1), ... have separate streams and separate shares of the cores, so
// that they run in parallel.
struct Context {
  DeviceKind kind = DeviceKind::kCpu;
  int id = 0;
  auto operator<=>(const Context&) const = default;
  std::string ToString() const;  // "cpu(0)"
};

inline Context cpu(int id = 0) {
  return {DeviceKind::kCpu, id};
}
inline Context gpu(int id = 0) {
  return {DeviceKind::kGpu, id};
}
inline Context cpu_pinned(int id = 0) {
  return {DeviceKind::kCpuPinned, id};
}

// Sets how many threads each cpu(i) computes with, in place of one for each core of its share. Call it before
// the first array is made: a context that has an array keeps its threads. Throws Error(kInvalidArgument) if
// `threads` is below 1.
void SetThreadsPerCpuContext(int threads);

// Bytes of the arrays of a context, up to the rounding of its allocator.
struct ArrayBytes {
  int64_t now = 0;
  int64_t most = 0;  // at one time so far
};
// Pinned memory (cpu_pinned) may not be counted, and is 0 then. Throws what making an array
// on the context throws.
ArrayBytes ArrayBytesOn(Context context);

inline std::ostream& operator<<(std::ostream& out, const Context& context) {
  return out << context.ToString();
}

}  // namespace sluice
