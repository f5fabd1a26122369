#include <unistd.h>

#include <csignal>
#include <future>
#include <memory>

#include "base/log.h"
#include "base/strings.h"
#include "runtime/nodes.h"
#include "runtime/process.h"
#include "runtime/server_program.h"
#include "runtime/signals.h"
#include "server/control.h"
#include "sluice/error.h"
#include "transport/address.h"

namespace sluice::runtime {
namespace {

struct ShardThread {
  std::string address;  // for workers
  std::shared_ptr<server::Shard> machine;
  std::unique_ptr<transport::ZmqLoop> loop;
};

// They post to one another: none goes before all have stopped.
struct Threads {
  ~Threads() {
    for (ShardThread& shard : shards) shard.loop->Stop();
    if (control) control->Stop();
  }
  std::vector<ShardThread> shards;
  std::unique_ptr<transport::ZmqLoop> control;
};

// With DMLC_LOCAL in Linux's abstract namespace (the '@'): a name without a file, gone with its process
// however that ends.
struct Place {
  std::string address, why;
  std::string advertised;  // the host that workers are told, where it is not that of `address`
};
Place ShardPlace(const JobConfig& config, uint64_t incarnation, uint32_t thread) {
  if (config.local_only) {
    const char* why = config.transport == TransportChoice::kIpc ? "SLUICE_TRANSPORT" : "DMLC_LOCAL";
    return {StrCat("ipc://@sluice-", std::hex, incarnation, "-", thread), why, ""};
  }
  const auto choice = transport::ChooseHost({config.node_host, config.interface, config.root_host}).OrThrow();
  if (transport::IsOwnAddress(choice.host)) return {transport::TcpAddress(choice.host, 0), choice.why, ""};
  const char* everywhere = choice.host.find(':') == std::string::npos ? "0.0.0.0" : "::";
  return {transport::TcpAddress(everywhere, 0),
          StrCat(choice.why, " is ", choice.host,
                 ", none of this machine's and taken for one that leads here (NAT)"),
          choice.host};
}

std::string AddressForWorkers(const Place& place, const std::string& bound) {
  if (place.advertised.empty()) return bound;
  const auto port = ParseInt(std::string_view(bound).substr(bound.rfind(':') + 1));
  return transport::TcpAddress(place.advertised, static_cast<uint16_t>(port.value_or(0)));
}

// What the shards of a server have in common.
struct Common {
  std::shared_ptr<transport::SharedHeap> heap;  // null: no memory is shared
  std::shared_ptr<transport::Traffic> traffic;
  server::Updates::Helpers helpers;
};

server::Updates::Helpers MakeHelpers(int threads) {
  server::Updates::Helpers helpers;
  for (int i = 0; i < threads; ++i) helpers.push_back(std::make_shared<ThreadExecutor>(StrCat("update ", i)));
  return helpers;
}

ShardThread StartShard(const JobConfig& config, std::shared_ptr<transport::ZmqContext> context,
                       const Common& common, const ServerOptions& server, uint64_t incarnation,
                       uint32_t thread) {
  server::ShardOptions options;
  options.job = wire::HashJobId(config.job_id);
  options.incarnation = incarnation;
  options.thread = thread;
  options.shards_per_server = static_cast<uint32_t>(config.server_threads);
  options.updater = server.updater;
  if (common.heap) options.memory = common.heap;
  options.helpers = common.helpers;
  if (thread == 0)  // once for the process
    options.process_counters = [traffic = common.traffic] { return NodeCounters(*traffic); };
  ShardThread shard;
  shard.machine = std::make_shared<server::Shard>(options);
  transport::ZmqLoopOptions loop = LoopOptions(config, StrCat("shard ", thread));
  loop.limits = wire::LimitsOfShards();
  // Of a worker that comes back, the first message may be as large.
  loop.max_strangers_bytes += loop.limits.max_message_bytes;
  loop.shared_heap = common.heap;
  loop.traffic = common.traffic;
  const Place place = ShardPlace(config, incarnation, thread);
  loop.bind = {place.address};
  loop.bind_reason = place.why;
  loop.bind_advice = "DMLC_NODE_HOST or DMLC_INTERFACE choose another address";
  shard.loop = std::make_unique<transport::ZmqLoop>(std::move(context), shard.machine, loop);
  shard.address = AddressForWorkers(place, shard.loop->addresses().front());
  return shard;
}

}  // namespace

membership::Options MembershipOptions(const JobConfig& config, uint64_t incarnation) {
  membership::Options options;
  options.role = *config.role;
  options.job = wire::HashJobId(config.job_id);
  options.incarnation = incarnation;
  options.scheduler_address = config.root_address();
  options.identity = config.identity;
  options.wished_rank = config.wished_rank;
  options.host = HostName();
  options.pid = static_cast<uint32_t>(getpid());
  options.num_workers = static_cast<uint32_t>(config.num_workers);
  options.num_servers = static_cast<uint32_t>(config.num_servers);
  options.heartbeat_interval = config.heartbeat_interval;
  options.heartbeat_timeout = config.heartbeat_timeout;
  options.rendezvous_timeout = config.rendezvous_timeout;
  return options;
}

int RunServerNode(const JobConfig& config, const ServerOptions& server) {
  AwaitSchedulersName(config);  // signals still end this
  HoldSignals();
  KeepMessageMemory();
  std::atomic<int> signal = 0;
  std::promise<transport::ZmqLoop*> started;
  const std::shared_future<transport::ZmqLoop*> control_loop = started.get_future().share();
  Threads threads;
  const uint64_t incarnation = RandomBits();
  auto context = std::make_shared<transport::ZmqContext>(
      transport::ZmqContextOptions{config.job_id, config.secret, config.io_threads});
  membership::Options membership = MembershipOptions(config, incarnation);
  const Common common{config.shares_memory() ? std::make_shared<transport::SharedHeap>() : nullptr,
                      std::make_shared<transport::Traffic>(), MakeHelpers(config.update_threads)};
  std::vector<server::ShardHandle> handles;
  for (int i = 0; i < config.server_threads; ++i) {
    threads.shards.push_back(
        StartShard(config, context, common, server, incarnation, static_cast<uint32_t>(i)));
    membership.shard_addresses.push_back(threads.shards.back().address);
  }
  for (ShardThread& shard : threads.shards) handles.push_back({shard.loop.get(), shard.machine.get()});
  const auto control = std::make_shared<server::Control>(
      membership, handles, [control_loop](auto task) { control_loop.get()->Post(std::move(task)); });
  threads.control = std::make_unique<transport::ZmqLoop>(context, control, LoopOptions(config, "control"));
  started.set_value(threads.control.get());
  const SignalWatcher watcher([&](int number) {
    if (number == SIGUSR1) {
      for (ShardThread& shard : threads.shards) {
        shard.loop->Post([machine = shard.machine](Time now, transport::Network&) {
          LOG(WARNING) << "state of a server shard:\n" << machine->DumpState(now);
        });
      }
    }
    threads.control->Post([&, number](Time now, transport::Network& network) {
      if (number == SIGUSR1) {
        LOG(WARNING) << "state of the server:\n" << control->DumpState(now);
        return;
      }
      signal = number;
      control->Fail(now, StrCat("the server was ended by ", SignalName(number)), network);
    });
  });
  std::optional<ServerProgram> program;
  if (server.program) program.emplace(config, control, *threads.control, server.program);
  WaitForEnd(*threads.control);
  for (ShardThread& shard : threads.shards) WaitForEnd(*shard.loop);
  program.reset();
  if (signal != 0) return kExitSignal + signal;
  return control->outcome().reason == wire::Stop::Reason::kFinished ? 0 : kExitFailed;
}

}  // namespace sluice::runtime
