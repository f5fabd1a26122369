// The processes of a distributed job (scheduler, server, worker) over real sockets.
#pragma once

#include <string>

#include "kvstore/membership/membership_client.h"
#include "runtime/job_config.h"
#include "runtime/signals.h"
#include "sluice/server.h"
#include "transport/loop_factory.h"

namespace sluice::runtime {

// Run the role until the job ends and return the process's exit code. Called on
// the main thread. They throw Error when the role cannot start or a loop fails.
int RunSchedulerNode(const JobConfig& config);
int RunServerNode(const JobConfig& config, const ServerOptions& server,
                  HeldSignals::Programs handlers = HeldSignals::Programs::kReplace);
// The main function of a program for one role only. Throws
// Error(kInvalidArgument) when DMLC_ROLE names another role or none.
int RunStockNode(const JobConfig& config, wire::Role role);

// The options of this node's membership, from the configuration.
membership::Options MembershipOptions(const JobConfig& config, uint64_t incarnation);
// Makes the loops of a node. Throws Error as transport::MakeLoopFactory does.
std::shared_ptr<transport::LoopFactory> LoopFactoryOf(const JobConfig& config);
// The options that all loops of a node have in common, from the configuration.
transport::LoopOptions LoopOptionsOf(const JobConfig& config, const std::string& name);
// Returns once the scheduler's host name can be resolved. Behind a Kubernetes service
// (behind_service), where the name may appear later than this process, it retries every 0.5 s
// until the rendezvous timeout. Throws Error(kInvalidArgument) when the name cannot be resolved.
void AwaitSchedulerHostName(const JobConfig& config);
// Logs that the process goes on for SLUICE_GRACE after signal `number`; for SignalWatcher's `on_wait`.
void LogGrace(const JobConfig& config, int number);
// Returns when the loop's machine is done. Throws Error(kUnavailable) when the loop ended with a failure.
void WaitForEnd(transport::ThreadLoop& loop);

}  // namespace sluice::runtime
