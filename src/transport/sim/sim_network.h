// Simulates a whole cluster in one thread, on virtual time. Every delay, loss and duplication is drawn from
// one seed, so a run is a function of (seed, machines, calls made). After FoundationDB's sim2.
//
//   SimNetwork sim({.seed = 7, .faults = {.drop = 0.05}});
//   SimLoop& server = sim.Start("server", std::make_shared<Echo>());
//   SimLoop& client = sim.Start("client", std::make_shared<Client>(server.addresses()[0]));
//   ASSERT_TRUE(sim.RunUntil([&] { return done; }, sim.now() + 60s)) << sim.LogText();
//
// Machines, tasks and the test itself run in one thread.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "transport/sim/sim_events.h"
#include "transport/sim/sim_flights.h"
#include "transport/sim/sim_history.h"
#include "transport/sim/sim_link.h"
#include "transport/sim/sim_partitions.h"
#include "transport/transport.h"
#include "wire/codec.h"

namespace sluice::transport {

// What may happen to a message. Probabilities are per message, in [0, 1].
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
  // The link of every host. A message occupies the sender's link for its bytes / transmit_rate, behind all
  // that the host sent before. Its first byte reaches the receiver's link one delay (of SimFaults) after it
  // left, and the message occupies that link for its bytes / receive_rate, behind all messages whose first
  // byte came before. It arrives when both links have passed its last byte: without other traffic after the
  // delay + its bytes / the lower rate. A lost message has occupied its sender's link; a duplicated one has
  // occupied it once. Messages within a host use no link.
  SimLink link;
  // Probability that a message passes through EncodeEnvelope and DecodeEnvelope. ValidatePayload always runs.
  double codec = 1;
  // Payloads are read in their sender's memory, as between processes of one host (shm/), instead of copied.
  bool shares_memory = false;
  // Probability that a loop goes on reading after a message, for at most SimFaults::max_delay, before it
  // calls OnBurstEnd.
  double busy = 0;
  wire::Limits limits;
  uint64_t room_bytes = uint64_t{32} << 20;       // while more is in flight to a peer, HasRoom is false
  uint64_t max_queued_bytes = uint64_t{1} << 30;  // payload in flight per peer; more is dropped
  size_t log_entries = 2000;                      // the newest are kept
};

struct SimCounters {
  uint64_t steps = 0;  // calls of machines
  uint64_t sent = 0;
  uint64_t delivered = 0;
  uint64_t dropped = 0;     // by chance, by a partition, at the bound, or because the receiver has ended
  uint64_t overflowed = 0;  // those among them that met the bound of queued bytes
  uint64_t duplicated = 0;
  uint64_t refused = 0;  // by the codec or ValidatePayload: a bug of the sending machine
};

class SimNetwork;

// The loop of one machine. Lives as long as its SimNetwork; a crashed one remains, but never acts again.
// Unlike a loop with a thread it drops the queued tasks when it ends.
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
  SimLoop(SimNetwork& sim, uint32_t index, uint32_t host, std::string name,
          std::shared_ptr<StateMachine> machine);

  SimNetwork& sim_;
  const uint32_t index_, host_;
  const std::string name_;
  std::shared_ptr<StateMachine> machine_;
  std::vector<std::string> addresses_;
  std::vector<Peer> peers_;  // by PeerId - 1
  std::deque<Task> tasks_;
  Time timer_ = Time::max();
  uint64_t timer_generation_ = 0;
  int timers_at_once_ = 0;
  bool busy_ = false;  // a message has been delivered, and OnBurstEnd not been called since
};

class SimNetwork {
 public:
  explicit SimNetwork(const SimOptions& options);
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  // Makes a loop at the next free address: "sim://0", "sim://1", ... Its machine starts by an event at the
  // present time. The loop has a host of its own, and so a link, or shares those of the loop `beside`.
  SimLoop& Start(std::string name, std::shared_ptr<StateMachine> machine, const SimLoop* beside = nullptr);
  // Makes `loop` never act again, as if its host were gone, and releases its machine. Messages that it has
  // sent still arrive; messages to it are lost. No peer gets OnClosed, as it would when a machine is Done,
  // and the machine does not get OnEnd.
  void Crash(SimLoop& loop);
  // From now until `until`, messages that would arrive between a loop of `a` and one of `b`, in either
  // direction, are lost.
  void Partition(const std::vector<const SimLoop*>& a, const std::vector<const SimLoop*>& b, Time until);
  void SetFaults(const SimFaults& faults);

  // Runs until `done` returns true; it is called before the first step and after each one. Returns false when
  // virtual time reaches `deadline` first.
  bool RunUntil(const std::function<bool()>& done, Time deadline);
  void RunFor(Duration duration);

  Time now() const { return now_; }
  const SimCounters& counters() const { return counters_; }
  // Two runs with the same hash made the same calls in the same order at the same times.
  uint64_t history_hash() const { return history_.hash(); }
  // Returns the newest events, one line each, then the DumpState of every living machine.
  std::string LogText() const;

 private:
  friend class SimLoop;
  struct Connection {
    uint32_t loop[2];            // side 0 connected to side 1, whose loop may not exist yet
    PeerId peer[2];              // the connection's PeerId in each loop; value 0: not known there yet
    Time last_arrival[2] = {};   // each side's messages', without the time in the receiver's link
    uint64_t in_flight[2] = {};  // payload bytes sent by each side
    bool without_room[2] = {};   // the side's machine waits for OnRoom
    bool open = true;
    std::vector<wire::Message> waiting;  // messages of side 0 until the loop of side 1 exists
  };
  // The virtual time at the start: not 0, which machines may take for "never".
  static constexpr Time kBegin = Time() + 1000s;

  bool Step(Time deadline);
  void Act(const SimEvent& event);
  void Reach(uint32_t slot);
  void Arrive(uint32_t slot);
  void EndBurst(SimLoop& loop);
  void End(SimLoop& loop);
  void Close(uint32_t connection);
  void SubtractInFlight(uint32_t connection, uint8_t side, uint64_t bytes);  // subtracts from in_flight
  void ReportRoom(uint32_t connection, uint8_t side);
  template <typename Call>
  void CallStateMachine(SimLoop& loop, Call&& call);
  void Dispatch(uint32_t connection, uint8_t side, wire::Message message);
  void Launch(uint32_t connection, uint8_t side, const SimDeparture& departure, wire::Message message);
  std::string_view NameOf(uint32_t loop) const;

  SimOptions options_;
  Rng rng_;
  Time now_;
  SimCounters counters_;
  SimHistory history_;
  SimEvents events_;
  SimFlights flights_;
  SimPartitions partitions_;
  std::vector<SimHost> hosts_;
  std::vector<std::unique_ptr<SimLoop>> loops_;
  std::vector<Connection> connections_;
};

}  // namespace sluice::transport
