// Custom server programs. Such a program is the stock server with an update function in place of the stock
// optimisers, and with a function of the program's own that runs beside it.
//
//   int main(int argc, char** argv) {
//     sluice::ServerOptions options;
//     options.updater = [](const sluice::UpdateContext& context, std::span<const float> gradient,
//                          std::span<float> weight) {
//       for (size_t i = 0; i < weight.size(); ++i) weight[i] -= 0.1f * gradient[i];
//     };
//     return sluice::RunServer(options);  // reads DMLC_* and SLUICE_*; returns the exit code
//   }
//
// `tools/launch.py --server-command ./my_server ...` starts it.
#pragma once

#include <chrono>
#include <functional>

#include "sluice/barrier.h"
#include "sluice/error.h"
#include "sluice/updater.h"

namespace sluice {

// The interface of a running job's server to its own program. Thread-safe.
class ServerNode {
 public:
  virtual ~ServerNode() = default;
  virtual int rank() const = 0;  // among the servers
  virtual int num_workers() const = 0;
  virtual int num_servers() const = 0;
  // As KVStore::NumDeadNodes. It still answers after the job has ended.
  virtual int NumDeadNodes() const = 0;
  // Waits until the programs of all servers (kServers), or these and all workers (kAll), have called Barrier
  // as often as this program. Throws Error: kDeadlineExceeded, which names the missing members; kUnavailable,
  // with the reason, when the job has failed; kCancelled when it has ended in good order; kInvalidArgument
  // for kWorkers.
  virtual void Barrier(BarrierGroup group = BarrierGroup::kServers,
                       std::chrono::milliseconds timeout = kDefaultTimeout) = 0;

  // As a timeout argument: SLUICE_OPERATION_TIMEOUT, or ten minutes where that is not set.
  static constexpr std::chrono::milliseconds kDefaultTimeout = std::chrono::milliseconds::min();
};

struct ServerOptions {
  // Updates the weights. If it is empty, the server assigns the sum of the gradients, or applies the
  // optimiser that the workers set.
  ServerUpdater updater;
  // Runs beside the server, on a thread of its own, once all nodes of the job have joined; may be empty. If
  // it throws while the job runs, the job fails. It must return soon after the job has ended, when
  // ServerNode::Barrier throws: RunServer waits 10 s for it and then ends the process with exit code 1.
  std::function<void(ServerNode& node)> program;
};

// Serves until the job ends, and returns the exit code of the process. An exception is printed as one line;
// the exit code is then 2 for Error(kInvalidArgument), else 1.
int RunServer(const ServerOptions& options);
// A whole main(): calls `make`, which may parse flags (sluice/flags.h), and runs a server with the options
// that it returns. An exception of `make` is printed likewise.
int RunServer(int argc, char** argv, const std::function<ServerOptions()>& make);

}  // namespace sluice
