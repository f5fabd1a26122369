// What the environment says about the job and this process's place in it; read once, handed down as plain
// data. docs/environment.md lists every variable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/env.h"
#include "wire/messages.h"

namespace sluice::runtime {

// How processes of a job reach each other (SLUICE_TRANSPORT). Across hosts it is always TCP.
enum class TransportChoice : uint8_t {
  kAuto,  // payloads through shared memory where a host is shared, all else by sockets
  kTcp,   // TCP alone
  kIpc,   // ZeroMQ's sockets of one host alone
  kShm,   // as kAuto, and a failure where memory cannot be shared
};

struct JobConfig {
  std::optional<wire::Role> role;  // none: not part of a distributed job

  std::string root_host;  // of the scheduler
  int root_port = 0;      // 0 (scheduler only): any free port, told through port_fd
  int port_fd = -1;       // scheduler: see docs/environment.md, SLUICE_PORT_FD
  int num_workers = 1;
  int num_servers = 1;
  std::string job_id = "sluice";
  std::string secret;  // empty: chosen by nobody, so any local user could join; launch.py always sets one

  std::string identity;  // stable over restarts
  int requested_rank = -1;
  int server_port = 0;    // SLUICE_SERVER_PORT: of the first key-owning thread of this host's servers; 0: any
  int local_server = 0;   // SLUICE_LOCAL_SERVER: which of its host's servers this is
  std::string node_host;  // DMLC_NODE_HOST
  std::string interface;  // DMLC_INTERFACE
  bool local_only = false;  // DMLC_LOCAL, or SLUICE_TRANSPORT=ipc: ipc sockets instead of tcp
  TransportChoice transport = TransportChoice::kAuto;
  bool behind_service = false;  // DMLC_USE_KUBERNETES: root_host leads to the scheduler, but is not its own

  int verbose = 0;
  Duration heartbeat_interval = 1s;
  Duration heartbeat_timeout = 10s;
  Duration resend_timeout = 5s;
  Duration rendezvous_timeout = 10min;
  std::chrono::milliseconds operation_timeout = 10min;  // of pulls and of calls that wait for others
  Duration grace{};                   // SLUICE_GRACE: how long a scheduler or a server goes on after SIGTERM
  int drop_percent = 0;               // PS_DROP_MSG
  std::optional<int> server_threads;  // key-owning ones of a server; empty: the scheduler says
  int offered_server_threads = 1;     // what a server would take by itself
  std::optional<int> update_threads;  // of a server, beside those; empty: UpdateThreads
  int server_cores = 1;               // that a server's threads share
  int io_threads = 1;                 // of ZeroMQ, in a worker or server: connections are spread over them
  std::optional<int64_t> bigarray_bound;  // empty: what plan::PlacementOptions says
  int reduction_threads = 4;
  std::optional<bool> multiplies_bfloat16;  // empty: where it is faster
  int cpu_threads = 1;                      // that this process should use: its share of the cores
  bool launched = false;                    // by launch.py, which says who is missing
  bool binds_threads = false;               // those of each cpu context to cores of its own

  // How many threads help a server that has `of_server` key-owning ones.
  int UpdateThreads(int of_server) const;
  bool shares_memory() const {
    return transport == TransportChoice::kAuto || transport == TransportChoice::kShm;
  }
  std::string root_address() const;  // "tcp://10.0.0.1:9000"
  std::string scheduler_bind() const;

  // Throws Error(kInvalidArgument) naming the variable, its value and what is accepted.
  static JobConfig FromEnv(const Env& env, int cores);
};

}  // namespace sluice::runtime
