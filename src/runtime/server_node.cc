// The server process: a control machine on its own loop, and the shards, each on
// a loop (a key-owning thread) of its own, which are started when the scheduler
// has decided how many each server runs. A ServerProgram may run beside them.
//
// RunServerNode runs on the main thread, which waits for the ends of all
// loops. ShardThreads is used on the control machine's loop, and after that
// has ended on the main thread. Loops talk to each other by posted tasks only.
#include <unistd.h>

#include <csignal>
#include <functional>
#include <future>
#include <memory>

#include "base/limits.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/threads.h"
#include "base/tool_names.h"
#include "runtime/nodes.h"
#include "runtime/post_once.h"
#include "runtime/process.h"
#include "runtime/server_program.h"
#include "runtime/signals.h"
#include "server/control.h"
#include "sluice/error.h"
#include "transport/address.h"
#include "transport/shm/shared_memory.h"

namespace sluice::runtime {
namespace {

struct ShardThread {
  std::string address;  // the address that workers connect to
  std::shared_ptr<server::Shard> machine;
  std::unique_ptr<transport::ThreadLoop> loop;
  PostOnce post_dump = {};
};

// The port of key-owning thread `thread` of `threads`: from SLUICE_SERVER_PORT on,
// the servers of a host have consecutive ports, one for each thread; 0 when any
// free port will do. Throws Error(kInvalidArgument) when the ports exceed 65535.
uint16_t ShardPort(const JobConfig& config, uint32_t thread, uint32_t threads) {
  if (config.server_port == 0) return 0;
  const int64_t first = config.server_port + int64_t{config.local_server} * threads;
  if (first + threads - 1 > 65535) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("SLUICE_SERVER_PORT is ", config.server_port, ", so that server ", config.local_server,
                       " of this host with ", Counted(threads, "thread"), " has the ports ", first, " to ",
                       first + threads - 1, ", and the last there is is 65535; choose a smaller one"));
  }
  return static_cast<uint16_t>(first + thread);
}

// Where a shard listens. An ipc address is a name in Linux's abstract namespace (the
// '@'): it has no file and is gone when its process has ended, however that happens.
struct Place {
  std::string address, why;
  std::string advertised;  // the host that workers connect to, when it differs from that of `address`
};
Place ShardPlace(const JobConfig& config, uint64_t incarnation, uint32_t thread, uint16_t port) {
  if (config.local_only) {
    const char* why = config.transport == TransportChoice::kIpc ? "SLUICE_TRANSPORT" : "DMLC_LOCAL";
    return {StrCat("ipc://@sluice-", std::hex, incarnation, "-", thread), why, ""};
  }
  const auto choice = transport::ChooseHost({config.node_host, config.interface, config.root_host}).OrThrow();
  if (transport::IsOwnAddress(choice.host)) return {transport::TcpAddress(choice.host, port), choice.why, ""};
  const char* everywhere = choice.host.find(':') == std::string::npos ? "0.0.0.0" : "::";
  return {transport::TcpAddress(everywhere, port),
          StrCat(choice.why, " is ", choice.host,
                 ", none of this machine's and taken for one that leads here (NAT)"),
          choice.host};
}

std::string AddressForWorkers(const Place& place, const std::string& bound) {
  if (place.advertised.empty()) return bound;
  const auto port = ParseInt(std::string_view(bound).substr(bound.rfind(':') + 1));
  return transport::TcpAddress(place.advertised, static_cast<uint16_t>(port.value_or(0)));
}

struct LoopStopper {
  ~LoopStopper() { loop.Stop(); }
  transport::ThreadLoop& loop;
};

server::UpdateQueue::Helpers MakeHelpers(int threads) {
  server::UpdateQueue::Helpers helpers;
  for (int i = 0; i < threads; ++i) helpers.push_back(std::make_shared<ThreadExecutor>(StrCat("update ", i)));
  return helpers;
}

// The shards of this process, as many as the scheduler decides. Made and used on the
// control machine's loop until that has ended, and on the main thread after that.
class ShardThreads {
 public:
  // Called as `on_failure(why)` when a shard's loop ends before its machine is done, on that loop's thread.
  using OnFailure = std::function<void(const std::string& why)>;
  ShardThreads(const JobConfig& config, const ServerOptions& server, uint64_t incarnation,
               std::shared_ptr<transport::LoopFactory> loops, OnFailure on_failure)
      : config_(config),
        server_(server),
        on_failure_(std::move(on_failure)),
        incarnation_(incarnation),
        loops_(std::move(loops)),
        heap_(config.shares_memory() ? std::make_shared<transport::SharedHeap>() : nullptr) {}
  ~ShardThreads() { StopAll(&shards_); }
  ShardThreads(const ShardThreads&) = delete;
  ShardThreads& operator=(const ShardThreads&) = delete;

  // Starts `count` shards and returns their handles and addresses; on a failure all of them are stopped.
  Result<server::Control::Shards> Start(uint32_t count) {
    Failure failure{ErrorCode::kResourceExhausted, ""};
    try {
      return StartAll(count);
    } catch (const Error& e) {
      failure = {e.code(), e.what()};
    } catch (const std::exception& e) {
      failure.message = StrCat("cannot start ", Counted(count, "key-owning thread"), ": ", e.what());
    }
    StopAll(&shards_);  // those that were started before the failure
    shards_.clear();
    return failure;
  }
  void Dump() {
    for (ShardThread& shard : shards_) {
      shard.post_dump(*shard.loop, [machine = shard.machine](Time now) {
        LOG(WARNING) << "state of a server shard:\n" << machine->DumpState(now);
      });
    }
  }
  // Waits for the ends of all shards' loops. Call it when the control machine's loop has
  // ended, which ends them. Throws Error(kUnavailable) when a loop ended with a failure.
  void AwaitEnd() {
    for (ShardThread& shard : shards_) WaitForEnd(*shard.loop);
  }

 private:
  // The shards post to one another, so that none is destroyed before all have stopped.
  static void StopAll(std::vector<ShardThread>* shards) {
    for (ShardThread& shard : *shards) shard.loop->Stop();
  }
  void Reserve(uint32_t count, int helpers) const;
  server::Control::Shards StartAll(uint32_t count);
  ShardThread StartShard(uint32_t thread, uint32_t count, const server::UpdateQueue::Helpers& helpers);

  const JobConfig& config_;
  const ServerOptions& server_;
  const OnFailure on_failure_;
  const uint64_t incarnation_;
  const std::shared_ptr<transport::LoopFactory> loops_;
  const std::shared_ptr<transport::SharedHeap> heap_;  // null: no memory is shared
  const std::shared_ptr<transport::TrafficCounters> traffic_ = std::make_shared<transport::TrafficCounters>();
  std::vector<ShardThread> shards_;
};

// Raises the limit of descriptors for the connections of all workers, and checks that the system
// allows all threads. If either fails, the error comes before any process waits for this server.
void ShardThreads::Reserve(uint32_t count, int helpers) const {
  // Descriptors of a shard's sockets and wake-ups, and of leased segments.
  constexpr uint64_t kOfAShard = 12, kOfMemory = 32;
  const auto workers = static_cast<uint64_t>(config_.num_workers);
  // With shared memory a worker has a second connection, which passes segments.
  const uint64_t connections = workers * count * (heap_ ? 2 : 1);
  ReserveDescriptors(connections + count * kOfAShard + (heap_ ? kOfMemory : 0),
                     StrCat("the connections of ", Counted(config_.num_workers, "worker"),
                            " to a server with ", Counted(count, "key-owning thread")),
                     2 * connections + 512);  // a worker that reconnects has two for a while
  const ThreadReservation threads(
      static_cast<int>(count) + helpers,
      StrCat(Counted(count, "key-owning thread"), " and ", Counted(helpers, "helper"),
             " of a server (SLUICE_SERVER_THREADS, SLUICE_UPDATE_THREADS)"));
}

server::Control::Shards ShardThreads::StartAll(uint32_t count) {
  const int num_helpers = config_.UpdateThreads(static_cast<int>(count));
  Reserve(count, num_helpers);
  const server::UpdateQueue::Helpers helpers = MakeHelpers(num_helpers);
  server::Control::Shards started;
  for (uint32_t thread = 0; thread < count; ++thread) {
    shards_.push_back(StartShard(thread, count, helpers));
    started.addresses.push_back(shards_.back().address);
  }
  for (ShardThread& shard : shards_) started.handles.push_back({shard.loop.get(), shard.machine.get()});
  return started;
}

ShardThread ShardThreads::StartShard(uint32_t thread, uint32_t count,
                                     const server::UpdateQueue::Helpers& helpers) {
  server::ShardOptions options;
  options.job = wire::HashJobId(config_.job_id);
  options.incarnation = incarnation_;
  options.thread = thread;
  options.shards_per_server = count;
  options.updater = server_.updater;
  if (heap_) options.memory = heap_;
  options.helpers = helpers;
  if (thread == 0)  // counted once for the process
    options.process_counters = [traffic = traffic_] { return NodeCounters(*traffic); };
  ShardThread shard;
  shard.machine = std::make_shared<server::Shard>(options);
  transport::LoopOptions loop = LoopOptionsOf(config_, StrCat("shard ", thread));
  loop.limits = wire::LimitsOfShards();
  // A worker that reconnects counts as unauthenticated
  // until its first message, which may be as large as any.
  loop.max_unauthenticated_bytes += loop.limits.max_message_bytes;
  loop.share_payloads = transport::SharePayloadsOf(heap_);
  loop.traffic = traffic_;
  loop.on_failure = on_failure_;
  const uint16_t port = ShardPort(config_, thread, count);
  const Place place = ShardPlace(config_, incarnation_, thread, port);
  loop.bind = {place.address};
  loop.bind_reason = place.why;
  loop.bind_advice =
      port == 0 ? "DMLC_NODE_HOST or DMLC_INTERFACE choose another address"
                : StrCat("SLUICE_SERVER_PORT, or --server-port of ", LaunchTool(), ", chooses other ports");
  shard.loop = loops_->Start(shard.machine, loop);
  shard.address = AddressForWorkers(place, shard.loop->addresses().front());
  return shard;
}

void WarnOfAddress(const JobConfig& config) {
  if (config.local_only) return;
  const auto choice = transport::ChooseHost({config.node_host, config.interface, config.root_host});
  if (choice && !choice.value().warning.empty()) LOG(WARNING) << WrapLogged(choice.value().warning);
}

}  // namespace

membership::Options MembershipOptions(const JobConfig& config, uint64_t incarnation) {
  membership::Options options;
  options.role = *config.role;
  options.job = wire::HashJobId(config.job_id);
  options.incarnation = incarnation;
  options.scheduler_address = config.root_address();
  options.identity = config.identity;
  options.requested_rank = config.requested_rank;
  options.host = HostName();
  options.pid = static_cast<uint32_t>(getpid());
  options.num_workers = static_cast<uint32_t>(config.num_workers);
  options.num_servers = static_cast<uint32_t>(config.num_servers);
  options.server_threads = static_cast<uint32_t>(config.server_threads.value_or(0));
  options.default_server_threads = static_cast<uint32_t>(config.default_server_threads);
  options.heartbeat_interval = config.heartbeat_interval;
  options.heartbeat_timeout = config.heartbeat_timeout;
  options.rendezvous_timeout = config.rendezvous_timeout;
  options.logs_missing = !config.launched;
  return options;
}

int RunServerNode(const JobConfig& config, const ServerOptions& server, HeldSignals::Programs handlers) {
  AwaitSchedulerHostName(config);  // signals still end the process here
  WarnOfAddress(config);
  const HeldSignals held(handlers);
  KeepMessageMemory();
  std::atomic<int> signal = 0;
  std::promise<transport::ThreadLoop*> started;
  const std::shared_future<transport::ThreadLoop*> control_loop = started.get_future().share();
  const uint64_t incarnation = RandomBits();
  // A wrong address or port is reported before the server joins a job.
  const auto expected = static_cast<uint32_t>(config.server_threads.value_or(config.default_server_threads));
  ShardPlace(config, incarnation, 0, ShardPort(config, 0, expected));
  const auto loops = LoopFactoryOf(config);
  std::shared_ptr<server::Control> control;
  std::unique_ptr<transport::ThreadLoop> loop;
  const auto fail = [&control, control_loop](const std::string& why) {
    control_loop.get()->Post([&control, why](Time now, transport::Network& network) {
      control->Fail(now, StrCat("a key-owning thread has ended: ", why), network);
    });
  };
  ShardThreads shards(config, server, incarnation, loops, fail);
  control = std::make_shared<server::Control>(
      MembershipOptions(config, incarnation), [&shards](uint32_t count) { return shards.Start(count); },
      [control_loop](auto task) { control_loop.get()->Post(std::move(task)); });
  loop = loops->Start(control, LoopOptionsOf(config, "control"));
  // The shards are destroyed before the control loop, since they
  // post to it; the loop uses them, so that it is stopped first.
  const LoopStopper stops_first{*loop};
  started.set_value(loop.get());
  const PostOnce post_dump;
  const auto on_signal = [&](int number) {
    if (number == SIGUSR1) {
      post_dump(*loop, [&](Time now) {
        shards.Dump();
        LOG(WARNING) << "state of the server:\n" << control->DumpState(now);
      });
      return;
    }
    loop->Post([&, number](Time now, transport::Network& network) {
      signal = number;
      control->Fail(now, StrCat("the server was ended by ", SignalName(number)), network);
    });
  };
  const SignalWatcher watcher(on_signal, config.grace, [&](int number) { LogGrace(config, number); });
  std::optional<ServerProgram> program;
  if (server.program) program.emplace(config, control, *loop, server.program);
  WaitForEnd(*loop);
  shards.AwaitEnd();
  program.reset();
  if (signal != 0) return kExitSignal + signal;
  return control->outcome().reason == wire::Stop::Reason::kFinished ? 0 : kExitFailed;
}

}  // namespace sluice::runtime
