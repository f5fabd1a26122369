#include "base/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/control_groups.h"
#include "base/strings.h"

namespace sluice {
namespace {

struct FreeSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

// Reads v2's cpu.max: "max 100000" (no quota) or "150000 100000" (quota and period in microseconds).
std::optional<double> QuotaOfV2(const ControlGroup& group) {
  const auto text = ReadGroupFile(group, "cpu.max");
  if (!text) return std::nullopt;
  const std::vector<std::string> words = StrSplit(*text, ' ');
  const auto quota = ParseInt(words[0]);
  const auto period = words.size() > 1 ? ParseInt(words[1]) : std::nullopt;
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// Reads v1's quota and period, in microseconds. A quota of -1 means no limit.
std::optional<double> QuotaOfV1(const ControlGroup& group) {
  const auto quota = ParseInt(ReadGroupFile(group, "cpu.cfs_quota_us").value_or(""));
  const auto period = ParseInt(ReadGroupFile(group, "cpu.cfs_period_us").value_or(""));
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

}  // namespace

std::vector<int> CoresOfProcess() {
  std::vector<int> cores;
  // The kernel refuses a set that is smaller than its number of cores, so larger sets are tried.
  for (int most = CPU_SETSIZE; most <= (1 << 20); most *= 2) {
    const std::unique_ptr<cpu_set_t, FreeSet> set(CPU_ALLOC(static_cast<size_t>(most)));
    const size_t size = CPU_ALLOC_SIZE(static_cast<size_t>(most));
    if (set == nullptr) break;
    if (sched_getaffinity(getpid(), size, set.get()) != 0) continue;
    for (int core = 0; core < most; ++core) {
      if (CPU_ISSET_S(static_cast<size_t>(core), size, set.get())) cores.push_back(core);
    }
    break;
  }
  return cores;
}

std::optional<double> CpuQuota(const std::filesystem::path& root) {
  std::optional<double> least;
  for (const ControlGroup& group : ControlGroups("cpu", root)) {
    const auto quota = group.v2 ? QuotaOfV2(group) : QuotaOfV1(group);
    if (quota && (!least || *quota < *least)) least = quota;
  }
  return least;
}

int CoreCount(size_t cores, std::optional<double> quota) {
  const double all = std::max<double>(1, static_cast<double>(cores));
  return static_cast<int>(std::max(1.0, std::min(all, std::ceil(quota.value_or(all)))));
}

int CoreCount() {
  return CoreCount(CoresOfProcess().size(), CpuQuota());
}

}  // namespace sluice
