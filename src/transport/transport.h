// Who moves messages, and who acts on them.
//
// A Machine is a deterministic state machine: scheduler, server control, server shard, worker client. It owns
// no thread, no clock and no socket. A Loop drives exactly one Machine: it calls it from one thread at a
// time, with the time, and moves the messages that it sends. zmq/ runs a Loop on a thread of its own over
// real sockets; sim/ runs any number of Loops in one thread on virtual time from one seed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/inline_function.h"
#include "wire/messages.h"

namespace sluice::transport {

// A peer of one loop: what Connect returned, or who sent a message. Meaningful in that loop only. Never
// reused.
struct PeerId {
  uint64_t value = 0;
  bool operator==(const PeerId&) const = default;
  auto operator<=>(const PeerId&) const = default;
};

// What a Machine may do to the world while it is being called.
class Network {
 public:
  virtual ~Network() = default;
  // Starts connecting to a bound loop and returns at once; connecting is retried until Disconnect. Messages
  // sent before the connection stands wait. An address that cannot be parsed is an Error(kInvalidArgument).
  virtual PeerId Connect(const std::string& address) = 0;
  // Nothing goes to the peer and nothing comes from it any more; what has not left yet is lost.
  virtual void Disconnect(PeerId peer) = 0;
  // Never blocks and never fails: the network may lose, repeat, delay and reorder. Payload frames are not
  // copied; they are held until sent. Beyond the transport's bound of queued bytes per peer the message is
  // dropped and counted.
  virtual void Send(PeerId peer, wire::Message message) = 0;
  // Payload bytes handed over for `peer` and not yet taken by the operating system; small messages may not be
  // counted at once.
  virtual uint64_t QueuedBytes(PeerId peer) const = 0;
  // False while so much is queued for `peer` that large messages had better wait. The machine then hears
  // OnRoom(peer) once, when at most half of that is left, or when the peer is gone.
  virtual bool HasRoom(PeerId peer) = 0;
};

class Machine {
 public:
  virtual ~Machine() = default;
  // Once, before anything else.
  virtual void OnStart(Time now, Network& network) = 0;
  // `message` has passed wire's checks and belongs to this job; nothing else about it is certain.
  virtual void OnMessage(Time now, PeerId from, wire::Message message, Network& network) = 0;
  // After one or more calls of OnMessage, before any other call but OnEnd: what was put off for more to come
  // together is to be done.
  virtual void OnBurstEnd(Time /*now*/, Network& /*network*/) {}
  // `peer`, for which there was no room (Network::HasRoom), has room again, or is gone: what is sent to it
  // then is dropped.
  virtual void OnRoom(Time /*now*/, PeerId /*peer*/, Network& /*network*/) {}
  // `peer` (of Connect) keeps this process out: its job id or secret is another one. Connecting goes on.
  virtual void OnRefused(Time /*now*/, PeerId /*peer*/, Network& /*network*/) {}
  // The connection by which `peer` came here has closed: its process may have ended, or it comes back and
  // goes on. A hint, not told by every transport and not of every end.
  virtual void OnClosed(Time /*now*/, PeerId /*peer*/, Network& /*network*/) {}
  // At NextTimer() or a little later. May be called early: look at `now`.
  virtual void OnTimer(Time now, Network& network) = 0;
  // When to be called next; Time::max(): not before something else happens. Asked again after every call.
  virtual Time NextTimer() const = 0;
  // True when the loop may end.
  virtual bool Done() const = 0;
  // Asked when Done: how long the end may wait for what was sent to leave, at most. A transport has a bound
  // of its own.
  virtual Duration Linger() const { return Duration::max(); }
  // Once, last: the loop ends, done or not, and whoever still waits for something waits in vain.
  virtual void OnEnd(Time /*now*/, const std::string& /*why*/, Network& /*network*/) {}
  // Who waits for which key, round and peer: for SIGUSR1. Several lines.
  virtual std::string DumpState(Time now) const = 0;
};

class Loop {
 public:
  virtual ~Loop() = default;
  // With room for a call of a worker's store: what it pushes and where the answer lands.
  using Task = InlineFunction<void(Time now, Network& network), 208>;
  // Runs `task` between two calls of the machine, in the order posted; tasks that the end overtakes run after
  // Machine::OnEnd. False, and never run, when the loop has ended. Thread-safe.
  virtual bool Post(Task task) = 0;
  // As Post, for a task that is short and whose caller would rather not wait for a thread to wake: a loop at
  // rest may run it, and what was posted before, before this returns, in the caller's thread.
  virtual bool PostOrRun(Task task) { return Post(std::move(task)); }
  // Lends the caller's thread, which waits for `done` to hold, to the loop: what arrives is then handled
  // here, and no other thread has to wake first. Returns when `done` holds, at `deadline`, or at once when
  // the loop has no use for it. `done` is called often, and changes by calls of the machine alone.
  // Thread-safe; not from within the machine.
  virtual void DriveUntil(const std::function<bool()>& /*done*/, Time /*deadline*/) {}
  // The addresses the loop is bound to, for others to connect to.
  virtual const std::vector<std::string>& addresses() const = 0;
};

}  // namespace sluice::transport
