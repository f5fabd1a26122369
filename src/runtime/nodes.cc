#include "runtime/nodes.h"

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::runtime {

transport::ZmqLoopOptions LoopOptions(const JobConfig& config, const std::string& name) {
  transport::ZmqLoopOptions options;
  options.name = name;
  options.role = config.role.value_or(wire::Role::kWorker);
  options.job = wire::HashJobId(config.job_id);
  options.heartbeat_interval = config.heartbeat_interval;
  options.heartbeat_timeout = config.heartbeat_timeout;
  options.drop_received = config.drop_percent / 100.0;
  return options;
}

void WaitForEnd(transport::ZmqLoop& loop) {
  // The machine has deadlines of its own for everything that it waits for: this loop only re-arms.
  while (!loop.Join(std::chrono::hours(1))) {
  }
  if (const std::string failure = loop.failure(); !failure.empty()) {
    throw Error(ErrorCode::kUnavailable, StrCat("a network loop ended early: ", failure));
  }
}

int RunStockNode(const JobConfig& config, wire::Role role) {
  if (config.role != role) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("this program is a ", wire::Name(role), ", but DMLC_ROLE is ",
                       config.role ? StrCat("'", wire::Name(*config.role), "'") : "not set",
                       "; start jobs with tools/launch.py"));
  }
  return role == wire::Role::kScheduler ? RunSchedulerNode(config) : RunServerNode(config, {});
}

}  // namespace sluice::runtime
