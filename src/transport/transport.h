// The contract between protocol code (StateMachine) and the code that moves its messages (Loop, Network).
//
// A StateMachine is deterministic: scheduler, server control, server shard, worker client. It owns no thread,
// no clock and no socket. A Loop drives exactly one StateMachine: it calls the machine from one thread at a
// time, passes the current time, and moves the messages that the machine sends. zmq/ runs each Loop on a
// thread of its own over real sockets; sim/ runs any number of Loops in one thread on virtual time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/inline_function.h"
#include "wire/messages.h"

namespace sluice::transport {

// One loop's number for a peer: the result of Connect, or the sender of a message. It has a meaning in that
// loop only, and is never reused.
struct PeerId {
  uint64_t value = 0;
  bool operator==(const PeerId&) const = default;
  auto operator<=>(const PeerId&) const = default;
};

// The network as a StateMachine sees it. A machine uses it only while its loop is calling it.
class Network {
 public:
  virtual ~Network() = default;
  // Starts to connect to the address of a bound loop and returns at once; the transport retries until
  // Disconnect. Messages that are sent before the connection is established wait for it. Throws
  // Error(kInvalidArgument) when `address` cannot be parsed; zmq/ throws Error(kResourceExhausted) when the
  // system refuses a socket or a descriptor.
  virtual PeerId Connect(const std::string& address) = 0;
  // Ends the exchange with `peer`: no message is sent to it or delivered from it any more, and messages that
  // have not left yet may be lost.
  virtual void Disconnect(PeerId peer) = 0;
  // Never blocks and never fails: the network may lose, repeat, delay and reorder messages. Large payload
  // frames are not copied; the transport holds them until they are sent. A message that would exceed the
  // transport's bound of queued bytes per peer is dropped and counted.
  virtual void Send(PeerId peer, wire::Message message) = 0;
  // Returns the payload bytes that were sent to `peer` and that the operating system has not taken yet. Small
  // messages may be counted late.
  virtual uint64_t QueuedBytes(PeerId peer) const = 0;
  // Returns false while so many bytes are queued for `peer` that large messages should wait. The loop then
  // calls StateMachine::OnRoom(peer) once, when the queue has shrunk to half of that bound or the peer is
  // gone.
  virtual bool HasRoom(PeerId peer) = 0;
};

class StateMachine {
 public:
  virtual ~StateMachine() = default;
  // Called once, before all other methods.
  virtual void OnStart(Time now, Network& network) = 0;
  // `message` has passed wire's checks and carries this job's id. The machine must check everything else.
  virtual void OnMessage(Time now, PeerId from, wire::Message message, Network& network) = 0;
  // Called after one or more calls of OnMessage, before any other method except OnEnd; it may also be called
  // when there was no message. The machine now does what it deferred to do it for several messages at once.
  virtual void OnBurstEnd(Time /*now*/, Network& /*network*/) {}
  // `peer`, for which Network::HasRoom was false, has room again or is gone. Messages to a peer that is gone
  // are dropped.
  virtual void OnRoom(Time /*now*/, PeerId /*peer*/, Network& /*network*/) {}
  // `peer`, a result of Connect, refuses this process because its job id or secret differs. The transport
  // goes on trying to connect.
  virtual void OnRefused(Time /*now*/, PeerId /*peer*/, Network& /*network*/) {}
  // The connection that `peer` had made to this loop has closed: its process may have ended, or it may
  // reconnect and continue. This is a hint: not every transport reports it, nor every closed connection.
  virtual void OnClosed(Time /*now*/, PeerId /*peer*/, Network& /*network*/) {}
  // Called at NextTimer() or a little later. It may also be called early, so the machine must look at `now`.
  virtual void OnTimer(Time now, Network& network) = 0;
  // Returns when OnTimer is due; Time::max() means that no timer is set. Asked again after every call.
  virtual Time NextTimer() const = 0;
  // Returns true when the loop may end.
  virtual bool Done() const = 0;
  // Called once Done() is true: returns how long, at most, the loop's end may wait until sent messages have
  // left. The transport has a bound of its own as well.
  virtual Duration Linger() const { return Duration::max(); }
  // Called once, as the last event: the loop ends, whether or not the machine is done, and no operation that
  // still waits can complete. `why` is the reason.
  virtual void OnEnd(Time /*now*/, const std::string& /*why*/, Network& /*network*/) {}
  // Returns several lines that say which node waits for which key, round and peer. Printed on SIGUSR1.
  virtual std::string DumpState(Time now) const = 0;
};

class Loop {
 public:
  virtual ~Loop() = default;
  // 208 bytes hold one call of a worker's store, with what it pushes and where its answer is delivered,
  // without an allocation.
  using Task = InlineFunction<void(Time now, Network& network), 208>;
  // Runs `task` between two calls of the machine; tasks run in the order posted. Tasks that are queued when
  // the loop ends run after StateMachine::OnEnd (sim/ drops them). Returns false, and never runs `task`, when
  // the loop has ended. Thread-safe.
  virtual bool Post(Task task) = 0;
  // As Post, for a short task whose caller prefers not to wait until a thread wakes. When the loop is asleep,
  // the tasks posted before and then `task` may run in the caller's thread, before this returns.
  virtual bool PostOrRun(Task task) { return Post(std::move(task)); }
  // Drives the loop in the caller's thread until `done` returns true: messages that arrive are handled here,
  // and no other thread has to wake first. Also returns at `deadline`, when the loop ends, and at once when
  // the loop cannot use this thread. `done` is called often; what else than calls of the machine changes its
  // result posts a task afterwards.
  // Thread-safe, but must not be called from within the machine.
  virtual void DriveUntil(const std::function<bool()>& /*done*/, Time /*deadline*/) {}
  // Returns the addresses that the loop is bound to, for other loops to connect to.
  virtual const std::vector<std::string>& addresses() const = 0;
};

}  // namespace sluice::transport
