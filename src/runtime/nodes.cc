#include "runtime/nodes.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "base/tool_names.h"
#include "sluice/error.h"
#include "transport/address.h"

namespace sluice::runtime {

std::shared_ptr<transport::LoopFactory> LoopFactoryOf(const JobConfig& config) {
  // A scheduler's messages are few and small.
  const int io_threads = config.role == wire::Role::kScheduler ? 1 : config.io_threads;
  return transport::MakeLoopFactory({config.transport, config.job_id, config.secret, io_threads});
}

transport::LoopOptions LoopOptionsOf(const JobConfig& config, const std::string& name) {
  transport::LoopOptions options;
  options.name = name;
  options.role = config.role.value_or(wire::Role::kWorker);
  options.job = wire::HashJobId(config.job_id);
  options.heartbeat_interval = config.heartbeat_interval;
  options.heartbeat_timeout = config.heartbeat_timeout;
  options.drop_received = config.drop_percent / 100.0;
  return options;
}

void AwaitSchedulerHostName(const JobConfig& config) {
  constexpr auto kPause = std::chrono::milliseconds(500);
  const auto start = std::chrono::steady_clock::now(), end = start + config.rendezvous_timeout;
  auto next_report = start;
  for (Duration pause = 10s;;) {
    auto address = transport::ResolveScheduler(config.root_host);
    if (address || !config.behind_service || std::chrono::steady_clock::now() > end) {
      std::move(address).OrThrow();
      return;
    }
    if (const auto now = std::chrono::steady_clock::now(); now >= next_report) {
      LOG(WARNING) << WrapLogged(StrCat(address.failure().message, "; trying again, gives up after ",
                                        ToSeconds(config.rendezvous_timeout),
                                        " s (SLUICE_RENDEZVOUS_TIMEOUT)"));
      next_report = now + pause;
      pause = std::min<Duration>(2 * pause, std::chrono::minutes(10));
    }
    std::this_thread::sleep_for(kPause);
  }
}

void LogGrace(const JobConfig& config, int number) {
  LOG(WARNING) << WrapLogged(StrCat(SignalName(number), ": it goes on for at most ", ToSeconds(config.grace),
                                    " s (SLUICE_GRACE), in which the workers may end the job; another signal "
                                    "ends it at once"));
}

void WaitForEnd(transport::ThreadLoop& loop) {
  // Each call waits an hour at most and is repeated: the machine
  // has its own deadlines for everything that it waits for.
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
                       "; start jobs with ", LaunchTool()));
  }
  return role == wire::Role::kScheduler ? RunSchedulerNode(config) : RunServerNode(config, {});
}

}  // namespace sluice::runtime
