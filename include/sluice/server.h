// A server program of one's own: the stock server with an update function in place of the stock optimisers,
// and what else the program wants to do beside it.
//
//   int main(int argc, char** argv) {
//     sluice::ServerOptions options;
//     options.updater = [](const sluice::UpdateContext& c, std::span<const float> gradient, std::span<float>
//     weight) {
//       for (size_t i = 0; i < weight.size(); ++i) weight[i] -= 0.1f * gradient[i];
//     };
//     return sluice::RunServer(options);   // reads DMLC_* and SLUICE_* from the environment; returns the
//     exit code
//   }
//
// Started by `tools/launch.py --server-command ./my_server ...`.
#pragma once

#include <chrono>
#include <functional>

#include "sluice/barrier.h"
#include "sluice/error.h"
#include "sluice/updater.h"

namespace sluice {

// A server of a running job, as its own program sees it. Thread-safe.
class ServerNode {
 public:
  virtual ~ServerNode() = default;
  virtual int rank() const = 0;  // among the servers
  virtual int num_workers() const = 0;
  virtual int num_servers() const = 0;
  // As KVStore::NumDeadNodes: goes on counting when the job has ended.
  virtual int NumDeadNodes() const = 0;
  // Waits for the other servers' programs (kServers), or for them and all workers (kAll), until all have
  // called it as often as this one. Throws Error: kDeadlineExceeded that names who is missing, kUnavailable
  // when the job has failed, with the reason, kCancelled when it has ended in good order, kInvalidArgument
  // for kWorkers.
  virtual void Barrier(BarrierGroup group = BarrierGroup::kServers,
                       std::chrono::milliseconds timeout = kDefaultTimeout) = 0;

  // What SLUICE_OPERATION_TIMEOUT says, else ten minutes.
  static constexpr std::chrono::milliseconds kDefaultTimeout = std::chrono::milliseconds::min();
};

struct ServerOptions {
  ServerUpdater updater;  // empty: assign, or the optimiser that the workers set
  // Runs beside the server on a thread of its own, from when the job is complete; empty: nothing. What it
  // throws while the job runs fails the job. It must return soon after the job has ended, which a Barrier
  // tells: RunServer waits 10 s for it.
  std::function<void(ServerNode& node)> program;
};

// Serves until the job ends; returns the exit code.
int RunServer(const ServerOptions& options);
// A whole main(): the same with what `make` returns, which may parse flags (sluice/flags.h). What it throws
// is printed as one line; the exit code is 2 for Error(kInvalidArgument), else 1.
int RunServer(int argc, char** argv, const std::function<ServerOptions()>& make);

}  // namespace sluice
