// The configuration of a process: the job and the process's place in it. It is read from the
// environment once and passed on as plain data. docs/environment.md lists every variable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/env.h"
#include "transport/transport_choice.h"
#include "wire/messages.h"

namespace sluice::runtime {

using transport::TransportChoice;

struct JobConfig {
  std::optional<wire::Role> role;  // empty: not part of a distributed job

  std::string root_host;  // DMLC_PS_ROOT_URI: the scheduler's host
  int root_port = 0;      // 0 (scheduler only): any free port, reported through port_fd
  int port_fd = -1;       // scheduler only: SLUICE_PORT_FD in docs/environment.md
  int num_workers = 1;
  int num_servers = 1;
  std::string job_id = "sluice";
  // When empty, any local user can join the job; launch.py always sets one.
  std::string secret;

  std::string identity;  // SLUICE_NODE_ID: stable over restarts
  int requested_rank = -1;
  // SLUICE_SERVER_PORT: the port of the first key-owning
  // thread of this host's first server; 0: any free port.
  int server_port = 0;
  int local_server = 0;     // SLUICE_LOCAL_SERVER: index among its host's servers
  std::string node_host;    // DMLC_NODE_HOST
  std::string interface;    // DMLC_INTERFACE
  bool local_only = false;  // DMLC_LOCAL or SLUICE_TRANSPORT=ipc: ipc sockets only
  TransportChoice transport = TransportChoice::kAuto;
  // DMLC_USE_KUBERNETES: root_host is the address of a service that forwards to the scheduler.
  bool behind_service = false;

  int verbose = 0;
  Duration heartbeat_interval = 1s;
  Duration heartbeat_timeout = 10s;
  Duration resend_timeout = 5s;
  Duration rendezvous_timeout = 10min;
  std::chrono::milliseconds operation_timeout = 10min;  // for pulls and calls that wait for other nodes
  Duration grace{};                   // SLUICE_GRACE: schedulers and servers go on so long after SIGTERM
  int drop_percent = 0;               // PS_DROP_MSG
  std::optional<int> server_threads;  // key-owning threads of a server; empty: the scheduler decides
  int default_server_threads = 1;     // key-owning threads that a server offers
  std::optional<int> update_threads;  // helpers of a server's key-owning threads; empty: see UpdateThreads
  int server_cores = 1;               // cores that a server's threads share
  int io_threads = 1;  // the transport's I/O threads of a worker or server, over which connections are spread
  std::optional<int64_t> bigarray_bound;  // empty: the default of plan::PlacementOptions
  int reduction_threads = 4;
  std::optional<bool> multiplies_bfloat16;  // empty: where this is faster
  bool multiplies_tfloat32 = false;         // on GPUs
  int cpu_threads = 1;                      // threads that this process should use: its share of the cores
  bool launched = false;                    // started by launch.py, which reports missing nodes itself
  bool binds_threads = false;               // bind each cpu context's threads to cores of its own

  // The number of helper threads of a server with `of_server` key-owning threads.
  int UpdateThreads(int of_server) const;
  bool shares_memory() const {
    return transport == TransportChoice::kAuto || transport == TransportChoice::kShm;
  }
  std::string root_address() const;  // "tcp://10.0.0.1:9000"
  std::string scheduler_bind() const;

  // Reads the configuration for a process that may use `cores` cores. Throws
  // Error(kInvalidArgument) that names the variable, its value and what is accepted.
  static JobConfig FromEnv(const Env& env, int cores);
};

}  // namespace sluice::runtime
