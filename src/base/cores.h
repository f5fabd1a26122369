// The number of cores that this process may use.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace sluice {

// Returns the cores that the process's affinity allows. The main thread's affinity is read, since the
// calling thread may be bound to fewer.
std::vector<int> CoresOfProcess();

// Returns the CPU time that control groups allow this process, in cores, such as 1.5: the smallest quota of
// its own group and that group's parents, of cgroup v1 (cpu.cfs_quota_us) and v2 (cpu.max). Returns nullopt
// without a quota. `root` is the root of the file system, which tests replace.
std::optional<double> CpuQuota(const std::filesystem::path& root = "/");

// Returns how many cores this process can keep busy: as many as its affinity allows, but no more than its
// quota, rounded up, and at least 1.
int CoreCount();
// Returns the same for the given number of cores and quota.
int CoreCount(size_t cores, std::optional<double> quota);

}  // namespace sluice
