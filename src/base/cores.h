// How many cores this process may use.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace sluice {

// The cores that its affinity allows: those of the main thread, since the one that asks may be bound.
std::vector<int> CoresOfProcess();

// How many cores' time its control groups allow it, such as 1.5: the smallest quota of its own group and its
// parents, of cgroup v1 (cpu.cfs_quota_us) and v2 (cpu.max). Empty without one. `root` is the root of the
// file system, which tests replace.
std::optional<double> CpuQuota(const std::filesystem::path& root = "/");

// How many cores it can keep busy: those that its affinity allows, and no more than its quota, rounded up. At
// least 1.
int CoreCount();
// The same of a number of cores and a quota.
int CoreCount(size_t cores, std::optional<double> quota);

}  // namespace sluice
