// The three kinds of processes of a distributed job, over real sockets.
#pragma once

#include <string>

#include "kvstore/membership/membership_client.h"
#include "runtime/job_config.h"
#include "runtime/signals.h"
#include "sluice/server.h"
#include "transport/zmq/zmq_loop.h"

namespace sluice::runtime {

// Plays the role until the job ends; returns the exit code.
int RunSchedulerNode(const JobConfig& config);
int RunServerNode(const JobConfig& config, const ServerOptions& server,
                  HeldSignals::Programs handlers = HeldSignals::Programs::kGiveWay);
// A program that plays one role only: checks that DMLC_ROLE says so.
int RunStockNode(const JobConfig& config, wire::Role role);

// What the environment says about this node's membership.
membership::Options MembershipOptions(const JobConfig& config, uint64_t incarnation);
// What the environment says about every loop of a node.
transport::ZmqLoopOptions LoopOptions(const JobConfig& config, const std::string& name);
// Behind a service of Kubernetes the scheduler's name may come later than this process: until it is known, or
// for the rendezvous timeout. Throws Error(kInvalidArgument) where it is not.
void AwaitSchedulersName(const JobConfig& config);
// For SignalWatcher::on_wait.
void TellOfGrace(const JobConfig& config, int number);
// Until the loop's machine is done. Throws Error when the loop ended before.
void WaitForEnd(transport::ZmqLoop& loop);

}  // namespace sluice::runtime
