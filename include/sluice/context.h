// Where an array lives and where work on it runs.
#pragma once

#include <compare>
#include <cstdint>
#include <ostream>
#include <string>

#include "sluice/error.h"

namespace sluice {

enum class DeviceKind : uint8_t { kCpu, kGpu, kCpuPinned };

// A device of this machine. cpu(0), cpu(1), ... are separate streams over shares of the cores: they run in
// parallel.
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

// How many threads each cpu(i) computes with, in place of its share of the cores. Call it before the first
// array: a context that has one keeps its threads. Throws Error(kInvalidArgument) below 1.
void SetThreadsPerCpuContext(int threads);

inline std::ostream& operator<<(std::ostream& out, const Context& context) {
  return out << context.ToString();
}

}  // namespace sluice
