#include "sluice/job.h"

#include "runtime/runtime.h"
#include "runtime/worker_node.h"

namespace sluice {

JobInfo Job() {
  const runtime::JobConfig& config = runtime::Runtime::Default()->config();
  const bool in_job = config.role.has_value();
  return {.in_job = in_job,
          .num_workers = in_job ? config.num_workers : 1,
          .num_servers = in_job ? config.num_servers : 0,
          .cpu_threads = config.cpu_threads};
}

int Rank() {
  const auto runtime = runtime::Runtime::Default();
  return runtime->config().role == wire::Role::kWorker ? runtime->Node()->rank() : 0;
}

std::map<std::string, std::map<std::string, uint64_t>> JobCounters(std::chrono::milliseconds timeout) {
  std::map<std::string, std::map<std::string, uint64_t>> counters;
  for (auto& [process, of_process] : runtime::Runtime::Default()->Node()->Stats(Bounded(timeout)))
    counters[process].insert(of_process.begin(), of_process.end());
  return counters;
}

}  // namespace sluice
