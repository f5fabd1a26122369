// The implementation of ZmqLoop: its thread, its lock, and the order in which its parts act. Internal to
// zmq/.
//
// The parts: Acceptor (peers that connect), Connector (peers connected to), Sender, Receiver, MemoryExchange
// (what is leased instead of sent), TaskQueue (posted tasks), PollSet (what is read and slept on).
//
// Thread safety: Post, PostOrRun, DriveUntil, the getters and Stop may be called from any thread. Everything
// else is done by the thread that holds lock_: the loop's thread while it is awake, or a caller's thread that
// finds the loop's thread asleep and does its work. In DriveUntil one caller may do so for long; it sleeps
// beside the loop's thread, on a poller of its own, which the kernel wakes first.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "base/guarded.h"
#include "transport/payload_sharing.h"
#include "transport/zmq/acceptor.h"
#include "transport/zmq/connector.h"
#include "transport/zmq/loop.h"
#include "transport/zmq/loop_lock.h"
#include "transport/zmq/loop_resources.h"
#include "transport/zmq/memory_exchange.h"
#include "transport/zmq/peers.h"
#include "transport/zmq/poll_set.h"
#include "transport/zmq/receiver.h"
#include "transport/zmq/sender.h"
#include "transport/zmq/task_queue.h"

namespace sluice::transport {

class ZmqDriver final : private Network {
 public:
  ZmqDriver(std::shared_ptr<ZmqContext> context, std::shared_ptr<StateMachine> machine, LoopOptions options);
  ~ZmqDriver() override;

  bool Post(Loop::Task&& task);
  bool PostOrRun(Loop::Task&& task);
  void DriveUntil(const std::function<bool()>& done, Time deadline);
  void Stop();
  const std::vector<std::string>& addresses() const { return acceptor_.addresses(); }
  bool Join(Duration timeout);
  std::string failure() const;
  ZmqCounters counters() const;

 private:
  struct Outcome {
    bool ended = false;
    std::string failure;
  };

  // Network, for the machine.
  PeerId Connect(const std::string& address) override;
  void Disconnect(PeerId id) override;
  void Send(PeerId id, wire::Message message) override { sender_.Send(id, std::move(message)); }
  uint64_t QueuedBytes(PeerId id) const override { return sender_.QueuedBytes(id); }
  bool HasRoom(PeerId id) override { return sender_.HasRoom(id); }

  void ThreadMain();
  void Run();
  void RunOnce();
  void Read(PolledSocket* polled, Time* now);  // sets *now to the time when the last message was read
  void OnGone(PeerId peer);                    // disconnected, or forgotten
  void UnlockLoop();
  void Sleep();
  void SleepOn(Poller* poller);
  void SetAlarm();
  void End(const std::string& failure);

  // The thread that holds lock_ uses these; methods that their classes declare thread-safe need no lock.
  PollSet poll_set_;
  LoopResources loop_;
  Peers peers_;
  Acceptor acceptor_;
  const std::unique_ptr<PayloadSharing> sharing_;  // null: every payload is sent
  Connector connector_;
  Sender sender_;
  MemoryExchange memory_exchange_;
  Receiver receiver_;
  TaskQueue tasks_;
  std::exception_ptr caller_exception_;  // by a call in a caller's thread; ends the loop
  bool caller_drives_ = false;           // a thread is in DriveUntil; it holds lock_ or sleeps
  bool up_ = false;                      // from the machine's OnStart to the end of the loop

  // Thread-safe.
  LoopLock lock_;
  std::atomic<bool> sleeping_ = false;
  std::atomic<bool> stop_ = false;
  Guarded<Outcome> outcome_;
  std::once_flag joined_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace sluice::transport
