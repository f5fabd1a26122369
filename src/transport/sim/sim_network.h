// A whole cluster in one thread, on virtual time, from one seed: every delay, loss and repetition is drawn
// from it, so that a run is a function of (seed, machines, calls made). After FoundationDB's sim2.
//
//   SimNetwork sim({.seed = 7, .faults = {.drop = 0.05}});
//   SimLoop& server = sim.Start("server", std::make_shared<Echo>());
//   SimLoop& client = sim.Start("client", std::make_shared<Client>(server.addresses()[0]));
//   ASSERT_TRUE(sim.RunUntil([&] { return done; }, sim.now() + 60s)) << sim.LogText();
//
// One thread owns all of it: machines, tests and tasks.
#pragma once

#include <deque>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "base/rng.h"
#include "transport/sim/sim_link.h"
#include "transport/transport.h"
#include "wire/codec.h"

namespace sluice::transport {

// What may happen to a message. Chances are per message, in [0, 1].
struct SimFaults {
  double drop = 0;
  double duplicate = 0;  // arrives a second time, with a delay of its own
  double reorder = 0;    // does not wait for earlier messages of its connection
  Duration min_delay = 50us;
  Duration max_delay = 500us;
};

struct SimOptions {
  uint64_t seed = 1;
  SimFaults faults;
  // Of every host. A message takes the sender's link for its bytes / transmit_rate, behind all that the host
  // sent before; its first byte is at the receiver's link a delay (of SimFaults) after it left, and takes
  // that for its bytes / receive_rate, behind all whose first byte came before. It arrives when both links
  // have passed its last byte: alone, after the delay + its bytes / the lower rate. A lost message has taken
  // its sender's link, one sent twice its sender's once. Messages within a host take no link.
  SimLink link;
  // How often a message goes through EncodeEnvelope and DecodeEnvelope. Its checks always run.
  double codec = 1;
  // Payloads are read in their sender's memory, as between processes of one host (shm/), not in copies.
  bool shares_memory = false;
  // How often a loop that has a message goes on reading, for a delay (of SimFaults) at most, before it rests.
  double busy = 0;
  wire::Limits limits;
  uint64_t room_bytes = uint64_t{32} << 20;       // with more in flight a peer has no room (Network::HasRoom)
  uint64_t max_queued_bytes = uint64_t{1} << 30;  // payload in flight per peer; more is dropped
  size_t log_entries = 2000;                      // the newest are kept
};

struct SimCounters {
  uint64_t steps = 0;  // calls of machines
  uint64_t sent = 0;
  uint64_t delivered = 0;
  uint64_t dropped = 0;     // by chance, partition, bound, or because nobody lives there
  uint64_t overflowed = 0;  // of these at the bound of queued bytes
  uint64_t duplicated = 0;
  uint64_t refused = 0;  // by the codec or ValidatePayload: a bug of the sending machine
};

class SimNetwork;

// One machine's place in the simulation. Lives as long as its SimNetwork; a crashed one stays behind, silent.
class SimLoop final : public Loop {
 public:
  bool Post(Task task) override;
  const std::vector<std::string>& addresses() const override { return addresses_; }
  const std::string& name() const { return name_; }
  bool ended() const { return machine_ == nullptr; }  // Done() or crashed

 private:
  friend class SimNetwork;
  class Port;  // the Network that the machine sees
  struct Peer {
    uint32_t connection;
    uint8_t side;
  };
  SimLoop(SimNetwork& sim, uint32_t index, uint32_t host, std::string name, std::shared_ptr<Machine> machine);

  SimNetwork& sim_;
  const uint32_t index_, host_;
  const std::string name_;
  std::shared_ptr<Machine> machine_;
  std::vector<std::string> addresses_;
  std::vector<Peer> peers_;  // PeerId - 1
  std::deque<Task> tasks_;
  Time timer_ = Time::max();
  uint64_t timer_generation_ = 0;
  int timers_at_once_ = 0;
  bool busy_ = false;  // what its machine put off waits
};

class SimNetwork {
 public:
  explicit SimNetwork(const SimOptions& options);
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  // A new loop at the next free address: "sim://0", "sim://1", ... The machine starts with the next step. It
  // has a host, and so a link, of its own, or that of the loop it stands `beside`.
  SimLoop& Start(std::string name, std::shared_ptr<Machine> machine, const SimLoop* beside = nullptr);
  // The loop never acts again, as if its host were gone; what it sent stays on its way, what was sent to it
  // is lost. Its machine is released. Nobody hears it hang up, as one does when a machine is Done.
  void Crash(SimLoop& loop);
  // From now until `until`, what would arrive between a loop of `a` and one of `b` is lost, in both
  // directions.
  void Partition(const std::vector<const SimLoop*>& a, const std::vector<const SimLoop*>& b, Time until);
  void SetFaults(const SimFaults& faults);

  // Runs until `done` holds; it is asked before the first step and after each one. False when virtual time
  // reaches `deadline` first.
  bool RunUntil(const std::function<bool()>& done, Time deadline);
  void RunFor(Duration duration);

  Time now() const { return now_; }
  const SimCounters& counters() const { return counters_; }
  // Two runs that agree here made the same calls in the same order at the same times.
  uint64_t history_hash() const { return hash_; }
  // The newest events, one line each, then every living machine's DumpState.
  std::string LogText() const;

 private:
  friend class SimLoop;
  enum class EventKind : uint8_t { kStart, kTask, kTimer, kReach, kArrival, kBurstEnd, kClosed, kRoom };
  enum class Fate : uint8_t {
    kSent,
    kArrived,
    kDropped,
    kCut,
    kOverflow,
    kNobody,
    kRefused,
    kStarted,
    kTask,
    kTimer,
    kCrashed,
    kEnded,
    kClosed,
    kRoom
  };
  struct Event {
    Time time;
    uint64_t sequence;  // ties run in the order made
    EventKind kind;
    // A loop; for kReach and kArrival a slot of flights_, for kClosed and kRoom a connection.
    uint32_t subject;
    uint64_t generation;  // of the timer; for kRoom the side
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : sequence > other.sequence;
    }
  };
  struct Connection {
    uint32_t loop[2];            // 0 connects to 1; the second may not exist yet
    PeerId peer[2];              // this connection's name in each loop; 0: not known there yet
    Time last_arrival[2] = {};   // but for what the receiver's link still holds
    uint64_t in_flight[2] = {};  // bytes sent by each side
    bool without_room[2] = {};   // the side's machine is to hear when there is room again
    bool open = true;
    std::vector<wire::Message> waiting;  // from 0, until 1 exists
  };
  struct Flight {
    uint32_t connection;
    uint8_t side;    // who sent it
    Time last;       // its last byte is at the receiver's link
    uint64_t bytes;  // 0: it takes no link
    wire::Message message;
  };
  // When a message leaves its host.
  struct Departure {
    uint64_t bytes;
    Time first, last;
  };
  struct Cut {
    std::vector<bool> a, b;  // by loop index
    Time until;
  };
  struct LogEntry {
    Time time;
    Fate fate;
    uint8_t body;
    uint32_t from, to;
    uint64_t id;
  };

  // Not the clock's zero, which machines may take for "never".
  static constexpr Time kBegin = Time() + 1000s;

  bool Step(Time deadline);
  void Act(const Event& event);
  void Reach(uint32_t slot);
  void Arrive(uint32_t slot);
  void EndBurst(SimLoop& loop);
  void End(SimLoop& loop);
  void Close(uint32_t connection);
  bool HasRoom(const SimLoop::Peer& peer);
  void TakeOff(uint32_t connection, uint8_t side, uint64_t bytes);  // from those in flight
  void TellOfRoom(uint32_t connection, uint8_t side);
  template <typename Call>
  void CallMachine(SimLoop& loop, Call&& call);
  void Push(Time time, EventKind kind, uint32_t subject, uint64_t generation = 0);
  PeerId Connect(SimLoop& loop, const std::string& address);
  void Send(SimLoop& loop, PeerId peer, wire::Message message);
  void Dispatch(uint32_t connection, uint8_t side, wire::Message message);
  Departure Transmit(uint32_t from, uint32_t to, const wire::Message& message);
  void Launch(uint32_t connection, uint8_t side, const Departure& departure, wire::Message message);
  bool IsCut(uint32_t from, uint32_t to);
  Status Check(wire::Message* message);
  void Log(Fate fate, uint32_t from, uint32_t to, const wire::Message* message);
  std::string_view NameOf(uint32_t loop) const;

  SimOptions options_;
  Rng rng_;
  Time now_;
  uint64_t sequence_ = 0;
  uint64_t hash_;
  SimCounters counters_;
  std::vector<SimHost> hosts_;
  std::vector<std::unique_ptr<SimLoop>> loops_;
  std::vector<Connection> connections_;
  std::vector<Flight> flights_;
  std::vector<uint32_t> free_flights_;
  std::vector<Cut> cuts_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::deque<LogEntry> log_;
};

}  // namespace sluice::transport
