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
  int wished_rank = -1;
  std::string node_host;    // DMLC_NODE_HOST
  std::string interface;    // DMLC_INTERFACE
  bool local_only = false;  // DMLC_LOCAL, or SLUICE_TRANSPORT=ipc: ipc sockets instead of tcp
  TransportChoice transport = TransportChoice::kAuto;
  bool behind_service = false;  // DMLC_USE_KUBERNETES: root_host leads to the scheduler, but is not its own

  int verbose = 0;
  Duration heartbeat_interval = 1s;
  Duration heartbeat_timeout = 10s;
  Duration resend_timeout = 5s;
  Duration rendezvous_timeout = 10min;
  std::chrono::milliseconds operation_timeout = 10min;  // of pulls and of calls that wait for others
  int drop_percent = 0;                                 // PS_DROP_MSG
  int server_threads = 1;
  int update_threads = 0;  // of a server, beside those
  int io_threads = 1;      // of ZeroMQ, in a worker or server: connections are spread over them
  std::optional<int64_t> bigarray_bound;  // empty: what plan::PlacementOptions says
  int reduction_threads = 4;
  std::optional<bool> multiplies_bfloat16;  // empty: where it is faster
  int cpu_threads = 1;                      // that this process should use: its share of the cores
  bool binds_threads = false;               // those of each cpu context to cores of its own

  bool shares_memory() const {
    return transport == TransportChoice::kAuto || transport == TransportChoice::kShm;
  }
  std::string root_address() const;  // "tcp://10.0.0.1:9000"
  std::string scheduler_bind() const;

  // Throws Error(kInvalidArgument) naming the variable, its value and what is accepted.
  static JobConfig FromEnv(const Env& env, int cores);
};

}  // namespace sluice::runtime
