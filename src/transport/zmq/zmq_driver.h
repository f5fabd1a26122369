// The implementation of ZmqLoop: its thread, its sockets and the calls of its machine. Internal to zmq/.
//
// Thread safety: Post, PostOrRun, DriveUntil, the getters and Stop may be called from any thread. Everything
// else is done by the thread that holds lock_: the loop's thread while it is awake, or a caller's thread that
// finds the loop's thread asleep and does its work. In DriveUntil one caller may do so for long; it sleeps
// beside the loop's thread, on a poller of its own, which the kernel wakes first.
//
// A ZMQ_FD signals only that something has changed since the socket last processed such a change. So a
// channel is read until nothing is left, and again after a send that has processed a change (zmq_frames.h),
// and a thread sleeps only when all channels are drained.
#pragma once

#include <atomic>
#include <exception>
#include <map>
#include <set>
#include <thread>
#include <unordered_map>

#include "base/guarded.h"
#include "base/log.h"
#include "base/pool_allocator.h"
#include "base/rng.h"
#include "transport/shm/shared_memory.h"
#include "transport/zmq/connection_monitor.h"
#include "transport/zmq/loop_lock.h"
#include "transport/zmq/peer_table.h"
#include "transport/zmq/poller.h"
#include "transport/zmq/zmq_frames.h"
#include "transport/zmq/zmq_loop.h"
#include "transport/zmq/zmq_socket.h"

namespace sluice::transport {

class ZmqDriver final : private Network {
 public:
  ZmqDriver(std::shared_ptr<ZmqContext> context, std::shared_ptr<Machine> machine, ZmqLoopOptions options);
  ~ZmqDriver() override;

  bool Post(Loop::Task&& task);
  bool PostOrRun(Loop::Task&& task);
  void DriveUntil(const std::function<bool()>& done, Time deadline);
  void Stop();
  const std::vector<std::string>& addresses() const { return addresses_; }
  bool Join(Duration timeout);
  std::string failure() const;
  ZmqCounters counters() const;

 private:
  struct Peer;
  // A socket that is read: the router, a peer's dealer, or the monitor of such a dealer.
  struct Channel {
    Channel(void* context, int type) : socket(context, type) {}
    ZmqSocket socket;
    Peer* peer = nullptr;  // null: the router
    bool is_monitor = false;
    bool drained = false;
  };
  struct Peer {
    ~Peer() { StopWatching(); }
    // Ends the events of `monitor`. An event that is never read would block libzmq's I/O thread.
    void StopWatching();

    PeerId id;
    std::string name;  // for logs
    RoutingId routing_id = 0;
    std::unique_ptr<Channel> dealer;   // null: reached through the router
    std::unique_ptr<Channel> monitor;  // of the dealer, until its first handshake
    std::shared_ptr<QueuedByteCounter> queue;
    bool open = true;
    int bad = 0;                         // bad messages since the peer was last muted
    int request_attempts = 0;            // link requests that found its rendezvous socket full
    Time tried_since{}, next_warning{};  // while a dealer has no connection: its start, the next warning
    Time muted_until{};
  };
  // What other threads write or read.
  struct CrossThreadState {
    std::vector<Loop::Task> tasks;
    bool closed = false;  // Post returns false
    bool ended = false;
    std::string failure;
  };
  struct AtomicCounters {
    std::atomic<uint64_t> sent{0}, received{0}, overflowed{0}, unreachable{0}, bad{0}, muted{0},
        thrown_away{0}, cut{0}, forgotten{0};
  };

  // Network, for the machine.
  PeerId Connect(const std::string& address) override;
  void Disconnect(PeerId id) override;
  void Send(PeerId id, wire::Message message) override;
  uint64_t QueuedBytes(PeerId id) const override;
  bool HasRoom(PeerId id) override;

  // zmq_peers.cc
  void Configure(ZmqSocket* socket) const;
  void Bind();
  void Watch(Peer* peer);
  void ReserveDescriptorsForConnections();
  void Linger(Duration duration);  // sets how long closing sockets keep messages that have not left
  void ReadMonitor(Channel* channel);
  void OnNoConnection(Peer* peer);
  Peer* Find(PeerId id) const;
  Peer* Add(std::unique_ptr<Peer> peer);       // gives the peer its id
  bool IsKnown(const Multipart& parts) const;  // the sender has sent by the same connection before
  Peer* SenderOf(const Channel& channel, const Multipart& parts);
  Peer* Admit(const Multipart& parts);
  void ReportRoom();

  // zmq_delivery.cc
  void Deliver(Time now, Channel* channel, Multipart::State state, Multipart* parts);
  void Reject(Peer* peer, Bytes envelope, const Failure& failure);

  // zmq_memory.cc
  wire::Message LoopMessage(wire::Body body) const;  // a message to another loop rather than its machine
  bool OnMemoryMessage(Peer* peer, const wire::Message& message);
  void AcceptMemory(Peer* peer, const wire::Message& message, const wire::MemoryOffer& offer);
  void ReportNotShared(const Peer& peer, const std::string& reason);
  void ReadMemory();

  // zmq_driver.cc
  void ThreadMain();
  void Run();
  void RunOnce();
  bool Idle() const;
  void UnlockLoop();
  void RunTasks();
  void TakeTasks();
  void Read(Channel* channel, Time* now);
  void ReadBurst(Channel* channel, Time* now);  // sets *now to the time when the last message was read
  Channel* ChannelOf(const Peer& peer) const { return peer.dealer ? peer.dealer.get() : router_.get(); }
  void RebuildPollSet();
  void Sleep();
  void CheckConnections();
  void SleepOn(Poller* poller);
  void PollBusy(Poller* poller);
  void DispatchReady(Poller* poller, int ready);
  void SetAlarm();
  void End(const std::string& failure);
  void Warn(const Peer* peer, const std::string& what);
  static Time Now() { return SteadyClock().Now(); }

  const std::shared_ptr<ZmqContext> context_;
  const std::shared_ptr<Machine> machine_;
  const ZmqLoopOptions options_;
  std::vector<std::string> addresses_;
  // Allocates what each message needs while ZeroMQ or the machine holds it: envelope, packed frames, records.
  const std::shared_ptr<Allocator> memory_ = std::make_shared<PoolAllocator>(size_t{16} << 20);

  // Guarded by lock_.
  std::unique_ptr<Channel> router_;
  std::unique_ptr<ConnectionMonitor> connection_monitor_;  // of the router
  PeerTable peer_table_;                                   // the peers reached through the router
  std::unique_ptr<SharedMemory> shared_;
  bool shared_drained_ = false;  // as Channel::drained, for the descriptors of shared_
  std::map<PeerId, std::unique_ptr<Peer>> peers_;
  uint64_t last_peer_ = 0;         // the newest id; ids are never reused
  std::set<PeerId> without_room_;  // peers for which the machine waits for OnRoom
  std::unordered_map<RoutingId, PeerId> by_routing_id_;
  std::vector<Channel*> channels_;
  bool channels_changed_ = true;
  uint64_t connected_ = 0;  // calls of Connect
  unsigned busy_passes_ = 0;
  std::vector<Loop::Task> running_;  // tasks taken from outside_; after one throws, the rest run at the end
  size_t next_running_ = 0;          // the first of running_ that has not run
  std::exception_ptr caller_exception_;  // by a call in a caller's thread; ends the loop
  bool caller_drives_ = false;           // a thread is in DriveUntil; it holds lock_ or sleeps
  bool up_ = false;                      // from the machine's OnStart to the end of the loop
  Rng chance_;
  LogLimiter log_{5, 10s};

  // Thread-safe.
  LoopLock lock_;
  Poller caller_poller_, poller_;
  const std::shared_ptr<Wakeup> room_wakeup_ = std::make_shared<Wakeup>([this] { poller_.Wake(); });
  std::atomic<bool> tasks_waiting_ = false;
  std::atomic<bool> sleeping_ = false;
  std::atomic<bool> stop_ = false;
  AtomicCounters counters_;
  Guarded<CrossThreadState> outside_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace sluice::transport
