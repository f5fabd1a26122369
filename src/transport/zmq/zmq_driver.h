// The thread behind a ZmqLoop. Internal to zmq/.
//
// Thread safety: Post, PostOrRun, DriveUntil, the getters and Stop may be called from any thread. All else
// belongs to who has the turn: the loop's thread while it is awake, or whoever finds it asleep and does its
// work. That may be one helper for long, who sleeps beside it on a poller that is told first.
//
// A ZMQ_FD tells only that something has changed since the socket last took note of such a thing, so a
// channel is read until it has nothing, again where sending took note (zmq_frames.h), and the thread sleeps
// only when all channels are drained.
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
  // A socket to be read: the router, or a peer's dealer, or its monitor.
  struct Channel {
    Channel(void* context, int type) : socket(context, type) {}
    ZmqSocket socket;
    Peer* peer = nullptr;  // null: the router
    bool is_monitor = false;
    bool drained = false;
  };
  struct Peer {
    ~Peer() { StopWatching(); }
    // libzmq blocks its I/O thread on an event that nobody reads: no event comes after this.
    void StopWatching();

    PeerId id;
    std::string name;  // for people
    RoutingId routing_id = 0;
    std::unique_ptr<Channel> dealer;   // null: reached through the router
    std::unique_ptr<Channel> monitor;  // of the dealer, until its first handshake
    std::shared_ptr<QueuedByteCounter> queue;
    bool open = true;
    int bad = 0;
    int request_attempts = 0;              // at its door for shared memory
    Time tried_since{}, next_complaint{};  // of a dealer without a connection
    Time muted_until{};
  };
  struct Outside {
    std::vector<Loop::Task> tasks;
    bool closed = false;  // no more tasks
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
  void Linger(Duration duration);  // for what was sent to leave, when the sockets close
  void ReadMonitor(Channel* channel);
  void OnNoConnection(Peer* peer);
  Peer* Find(PeerId id) const;
  Peer* Add(std::unique_ptr<Peer> peer);       // which gets its id
  bool IsKnown(const Multipart& parts) const;  // its sender has sent by the same connection before
  Peer* SenderOf(const Channel& channel, const Multipart& parts);
  Peer* Admit(const Multipart& parts);
  void TellOfRoom();

  // zmq_delivery.cc
  void Deliver(Time now, Channel* channel, Multipart::State state, Multipart* parts);
  void Reject(Peer* peer, Bytes envelope, const Failure& failure);

  // zmq_memory.cc
  wire::Message Own(wire::Body body) const;  // between loops
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
  void ReadBurst(Channel* channel, Time* now);  // *now: becomes when the last message was read
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
  // Of what each message takes while ZeroMQ or the machine has it.
  const std::shared_ptr<Allocator> memory_ = std::make_shared<PoolAllocator>(size_t{16} << 20);

  // Of who has the turn.
  std::unique_ptr<Channel> router_;
  std::unique_ptr<ConnectionMonitor> connection_monitor_;  // of the router
  PeerTable peer_table_;                                   // the peers reached through the router
  std::unique_ptr<SharedMemory> shared_;
  bool shared_drained_ = false;  // as a channel's
  std::map<PeerId, std::unique_ptr<Peer>> peers_;
  uint64_t last_peer_ = 0;         // never given again
  std::set<PeerId> without_room_;  // the machine is to hear when they have room again
  std::unordered_map<RoutingId, PeerId> by_routing_id_;
  std::vector<Channel*> channels_;
  bool channels_changed_ = true;
  uint64_t connected_ = 0;  // how often Connect was called
  unsigned busy_passes_ = 0;
  std::vector<Loop::Task> running_;  // what was taken, from `next_running_` on: one may throw
  size_t next_running_ = 0;
  std::exception_ptr thrown_;   // in a caller's thread
  bool caller_drives_ = false;  // somebody does; asleep, unless it is who has the turn
  bool up_ = false;             // between the machine's start and its end
  Rng chance_;
  LogLimiter log_{5, 10s};

  // Shared.
  LoopLock lock_;
  Poller caller_poller_, poller_;
  const std::shared_ptr<Wakeup> room_wakeup_ = std::make_shared<Wakeup>([this] { poller_.Wake(); });
  std::atomic<bool> tasks_waiting_ = false;
  std::atomic<bool> sleeping_ = false;
  std::atomic<bool> stop_ = false;
  AtomicCounters counters_;
  Guarded<Outside> outside_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace sluice::transport
