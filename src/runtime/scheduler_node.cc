// The scheduler process: it drives a scheduler::Scheduler on a loop and reports its port
// and its progress to the process that started it, through SLUICE_PORT_FD (docs/environment.md).
//
// RunSchedulerNode runs on the main thread, which waits for the loop's end.
// The loop's thread alone uses the machine; signals reach it as posted tasks.
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "base/limits.h"
#include "base/log.h"
#include "base/strings.h"
#include "runtime/nodes.h"
#include "runtime/post_once.h"
#include "runtime/process.h"
#include "runtime/signals.h"
#include "scheduler/scheduler.h"
#include "sluice/error.h"

namespace sluice::runtime {
namespace {

// Writes the port as a line to `fd`: the process that started the scheduler
// with port 0 waits for it. Throws Error(kUnavailable) when that fails.
void WritePort(int fd, const std::string& address) {
  if (fd < 0) return;
  const std::string line = address.substr(address.rfind(':') + 1) + "\n";
  const bool told = write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (!told)
    throw Error(ErrorCode::kUnavailable,
                StrCat("could not tell the port: descriptor ", fd, " (SLUICE_PORT_FD) takes no bytes"));
}

// Writes `text` as a line. Returns false when there is no
// reader: one that needs only the port closes the pipe after it.
bool WriteLine(int fd, const std::string& text) {
  if (fd < 0) return false;
  const std::string line = text + "\n";
  return write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

void WriteComplete(int fd) {
  if (fd < 0) return;
  if (!WriteLine(fd, "complete")) VLOG(1) << "nobody listens at SLUICE_PORT_FD";
  close(fd);
}

scheduler::Options OptionsOf(const JobConfig& config) {
  scheduler::Options options;
  options.job = wire::HashJobId(config.job_id);
  options.incarnation = RandomBits();
  options.num_workers = static_cast<uint32_t>(config.num_workers);
  options.num_servers = static_cast<uint32_t>(config.num_servers);
  options.shards_per_server = std::nullopt;
  if (config.server_threads) options.shards_per_server = static_cast<uint32_t>(*config.server_threads);
  options.bigarray_bound = config.bigarray_bound;
  options.heartbeat_timeout = config.heartbeat_timeout;
  options.rendezvous_timeout = config.rendezvous_timeout;
  options.process_counters = ProcessCounters;
  options.on_joined = [fd = config.port_fd](const wire::NodeInfo& node) {
    WriteLine(fd, StrCat("joined ", wire::Name(node.role), " ", node.rank));
  };
  options.on_waiting = [fd = config.port_fd] { return WriteLine(fd, "waiting"); };
  options.on_complete = [fd = config.port_fd] { WriteComplete(fd); };
  return options;
}

// Raises the limit of descriptors for one connection to each
// node. If that fails, the error comes before any node waits.
void ReserveConnections(const JobConfig& config) {
  constexpr uint64_t kOwn = 32;  // the scheduler's sockets and wake-up descriptors
  const auto nodes = static_cast<uint64_t>(config.num_workers) + static_cast<uint64_t>(config.num_servers);
  ReserveDescriptors(nodes + kOwn,
                     StrCat("the connections of ", Counted(config.num_workers, "worker"), " and ",
                            Counted(config.num_servers, "server"), " to the scheduler"),
                     2 * nodes + 256);  // a node that reconnects has two for a while
}

}  // namespace

int RunSchedulerNode(const JobConfig& config) {
  std::signal(SIGPIPE, SIG_IGN);
  std::atomic<int> signal = 0;
  const auto machine = std::make_shared<scheduler::Scheduler>(OptionsOf(config));
  const HeldSignals held(HeldSignals::Programs::kReplace);
  ReserveConnections(config);
  const auto loops = LoopFactoryOf(config);
  transport::LoopOptions options = LoopOptionsOf(config, "scheduler");
  // The largest message is a declaration of many keys.
  options.limits.max_envelope_bytes = options.limits.max_frame_bytes = options.limits.max_message_bytes =
      8u << 20;
  options.bind = {config.scheduler_bind()};
  options.bind_reason = config.behind_service ? "DMLC_USE_KUBERNETES" : "DMLC_PS_ROOT_URI";
  options.bind_advice = "DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT choose another (port 0: any free one)";
  const auto loop = loops->Start(machine, options);
  const PostOnce post_dump;
  const auto on_signal = [&](int number) {
    if (number == SIGUSR1) {
      post_dump(*loop, [machine](Time now) {
        LOG(WARNING) << "state of the scheduler:\n" << machine->DumpState(now);
      });
      return;
    }
    loop->Post([&, number](Time now, transport::Network& network) {
      signal = number;
      machine->FailJob(now, StrCat("the scheduler was ended by ", SignalName(number)), network);
    });
  };
  const SignalWatcher watcher(on_signal, config.grace, [&](int number) { LogGrace(config, number); });
  WritePort(config.port_fd, loop->addresses().front());
  VLOG(1) << "waiting for " << Counted(config.num_servers, "server") << " and "
          << Counted(config.num_workers, "worker");
  WaitForEnd(*loop);
  if (signal != 0) return kExitSignal + signal;
  return machine->outcome().reason == wire::Stop::Reason::kFinished ? 0 : kExitFailed;
}

}  // namespace sluice::runtime
