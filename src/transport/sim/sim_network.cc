// The event queue of a simulation. Step takes the earliest event and acts on it: it starts a machine, fires a
// timer, runs a task, or moves a message, which is sent (Send, Dispatch), passes the links (Transmit, Launch,
// Reach) and is delivered (Arrive).
// Invariants: time never goes back; events of the same time run in the order made; every random draw comes
// from rng_, in an order that depends on nothing but earlier events. A machine's OnBurstEnd is called before
// any other call of it but OnMessage (EndBurst). Tests call all of it from one thread.
#include "transport/sim/sim_network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/strings.h"
#include "sluice/error.h"
#include "transport/sim/sim_lease.h"

namespace sluice::transport {
namespace {

constexpr std::string_view kScheme = "sim://";
// A machine whose timer fires this often at one time would keep a core busy in a real loop.
constexpr int kMaxTimersAtOnce = 10000;

void FailUnlessRate(double rate) {
  if (!(rate >= 0 && std::isfinite(rate))) {
    throw Error(ErrorCode::kInvalidArgument, StrCat("a link of ", rate, " bytes a second is none"));
  }
}

void FailUnlessChance(double chance, const char* name) {
  if (!(chance >= 0 && chance <= 1)) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("SimFaults::", name, " is ", chance, ", not within 0 to 1"));
  }
}

}  // namespace

class SimLoop::Port final : public Network {
 public:
  explicit Port(SimLoop& loop) : loop_(loop) {}
  PeerId Connect(const std::string& address) override { return loop_.sim_.Connect(loop_, address); }
  void Disconnect(PeerId peer) override {
    if (const Peer* p = Find(peer)) loop_.sim_.connections_[p->connection].open = false;
  }
  void Send(PeerId peer, wire::Message message) override { loop_.sim_.Send(loop_, peer, std::move(message)); }
  uint64_t QueuedBytes(PeerId peer) const override {
    const Peer* p = Find(peer);
    return p == nullptr ? 0 : loop_.sim_.connections_[p->connection].in_flight[p->side];
  }
  bool HasRoom(PeerId peer) override {
    const Peer* p = Find(peer);
    return p == nullptr || loop_.sim_.HasRoom(*p);
  }

 private:
  const Peer* Find(PeerId peer) const {
    return peer.value == 0 || peer.value > loop_.peers_.size() ? nullptr : &loop_.peers_[peer.value - 1];
  }
  SimLoop& loop_;
};

SimLoop::SimLoop(SimNetwork& sim, uint32_t index, uint32_t host, std::string name,
                 std::shared_ptr<Machine> machine)
    : sim_(sim),
      index_(index),
      host_(host),
      name_(std::move(name)),
      machine_(std::move(machine)),
      addresses_{StrCat(kScheme, index)} {}

bool SimLoop::Post(Task task) {
  if (ended()) return false;
  tasks_.push_back(std::move(task));
  sim_.Push(sim_.now_, SimNetwork::EventKind::kTask, index_);
  return true;
}

SimNetwork::SimNetwork(const SimOptions& options)
    : options_(options), rng_(options_.seed), now_(kBegin), hash_(MixBits(options_.seed)) {
  SetFaults(options_.faults);
  FailUnlessRate(options_.link.transmit_rate);
  FailUnlessRate(options_.link.receive_rate);
}

SimNetwork::~SimNetwork() = default;

void SimNetwork::SetFaults(const SimFaults& faults) {
  FailUnlessChance(faults.drop, "drop");
  FailUnlessChance(faults.duplicate, "duplicate");
  FailUnlessChance(faults.reorder, "reorder");
  if (faults.min_delay < Duration::zero() || faults.max_delay < faults.min_delay) {
    throw Error(ErrorCode::kInvalidArgument, StrCat("SimFaults delays from ", faults.min_delay.count(),
                                                    " to ", faults.max_delay.count(), " ns are no range"));
  }
  options_.faults = faults;
}

SimLoop& SimNetwork::Start(std::string name, std::shared_ptr<Machine> machine, const SimLoop* beside) {
  const auto index = static_cast<uint32_t>(loops_.size());
  const uint32_t host = beside ? beside->host_ : static_cast<uint32_t>(hosts_.size());
  if (!beside) hosts_.emplace_back(options_.link);
  loops_.push_back(
      std::unique_ptr<SimLoop>(new SimLoop(*this, index, host, std::move(name), std::move(machine))));
  Push(now_, EventKind::kStart, index);
  for (uint32_t c = 0; c < connections_.size(); ++c) {
    if (connections_[c].loop[1] != index) continue;
    for (wire::Message& message : std::exchange(connections_[c].waiting, {}))
      Dispatch(c, 0, std::move(message));
  }
  return *loops_.back();
}

void SimNetwork::Crash(SimLoop& loop) {
  if (loop.ended()) return;
  Log(Fate::kCrashed, loop.index_, loop.index_, nullptr);
  loop.machine_.reset();
  loop.tasks_.clear();
}

void SimNetwork::Partition(const std::vector<const SimLoop*>& a, const std::vector<const SimLoop*>& b,
                           Time until) {
  Cut cut{std::vector<bool>(loops_.size()), std::vector<bool>(loops_.size()), until};
  for (const SimLoop* loop : a) cut.a[loop->index_] = true;
  for (const SimLoop* loop : b) cut.b[loop->index_] = true;
  cuts_.push_back(std::move(cut));
}

bool SimNetwork::IsCut(uint32_t from, uint32_t to) {
  std::erase_if(cuts_, [this](const Cut& cut) { return cut.until <= now_; });
  return std::any_of(cuts_.begin(), cuts_.end(), [&](const Cut& cut) {
    const auto in = [](const std::vector<bool>& set, uint32_t loop) {
      return loop < set.size() && set[loop];
    };
    return (in(cut.a, from) && in(cut.b, to)) || (in(cut.a, to) && in(cut.b, from));
  });
}

bool SimNetwork::RunUntil(const std::function<bool()>& done, Time deadline) {
  while (!done()) {
    if (!Step(deadline)) return false;
  }
  return true;
}

void SimNetwork::RunFor(Duration duration) {
  const Time deadline = now_ + duration;
  while (Step(deadline)) {
  }
}

// Runs one event. When none is due by `deadline`, sets the time to `deadline` and returns false.
bool SimNetwork::Step(Time deadline) {
  if (events_.empty() || events_.top().time > deadline) {
    now_ = std::max(now_, deadline);
    return false;
  }
  const Event event = events_.top();
  events_.pop();
  now_ = std::max(now_, event.time);
  Act(event);
  return true;
}

void SimNetwork::Act(const Event& event) {
  if (event.kind == EventKind::kReach) return Reach(event.subject);
  if (event.kind == EventKind::kArrival) return Arrive(event.subject);
  if (event.kind == EventKind::kClosed) return Close(event.subject);
  if (event.kind == EventKind::kRoom)
    return ReportRoom(event.subject, static_cast<uint8_t>(event.generation));
  SimLoop& loop = *loops_[event.subject];
  if (loop.ended()) return;
  EndBurst(loop);
  if (loop.ended()) return;
  switch (event.kind) {
    case EventKind::kStart:
      Log(Fate::kStarted, event.subject, event.subject, nullptr);
      return CallMachine(loop, [&](Machine& m, Network& network) { m.OnStart(now_, network); });
    case EventKind::kTask: {
      Log(Fate::kTask, event.subject, event.subject, nullptr);
      Loop::Task task = std::move(loop.tasks_.front());
      loop.tasks_.pop_front();
      return CallMachine(loop, [&](Machine&, Network& network) { task(now_, network); });
    }
    case EventKind::kTimer:
      if (event.generation != loop.timer_generation_) return;
      SLUICE_CHECK(++loop.timers_at_once_ < kMaxTimersAtOnce)
          << loop.name_ << "'s timer fires without end at the same moment: NextTimer must move on\n"
          << LogText();
      loop.timer_ = Time::max();
      Log(Fate::kTimer, event.subject, event.subject, nullptr);
      return CallMachine(loop, [&](Machine& m, Network& network) { m.OnTimer(now_, network); });
    case EventKind::kReach:
    case EventKind::kArrival:
    case EventKind::kBurstEnd:
    case EventKind::kClosed:
    case EventKind::kRoom:
      return;
  }
}

template <typename Call>
void SimNetwork::CallMachine(SimLoop& loop, Call&& call) {
  const std::shared_ptr<Machine> machine = loop.machine_;  // the call may crash the loop
  SimLoop::Port port(loop);
  ++counters_.steps;
  call(*machine, port);
  if (loop.ended()) return;
  if (machine->Done()) return End(loop);
  const Time timer = machine->NextTimer();
  if (timer == loop.timer_) return;
  loop.timer_ = timer;
  ++loop.timer_generation_;
  if (timer == Time::max()) return;
  if (timer > now_) loop.timers_at_once_ = 0;
  Push(std::max(timer, now_), EventKind::kTimer, loop.index_, loop.timer_generation_);
}

// Ends a loop whose machine is Done. The loops that it had connected to get OnClosed, after the messages that
// it has sent.
void SimNetwork::End(SimLoop& loop) {
  Log(Fate::kEnded, loop.index_, loop.index_, nullptr);
  loop.machine_.reset();
  loop.tasks_.clear();
  for (const SimLoop::Peer& peer : loop.peers_) {
    const Connection& c = connections_[peer.connection];
    if (peer.side == 0 && c.open)
      Push(std::max(c.last_arrival[0], now_ + options_.faults.min_delay), EventKind::kClosed,
           peer.connection);
  }
}

void SimNetwork::Close(uint32_t connection) {
  const Connection& c = connections_[connection];
  const uint32_t to = c.loop[1];
  if (to >= loops_.size() || loops_[to]->ended()) return;
  // Messages that were sent before may still be in the receiver's link.
  if (const Time free = hosts_[loops_[to]->host_].receive.free(); free > now_)
    return Push(free, EventKind::kClosed, connection);
  if (c.peer[1].value == 0 || IsCut(c.loop[0], to)) return;
  Log(Fate::kClosed, c.loop[0], to, nullptr);
  EndBurst(*loops_[to]);
  if (loops_[to]->ended()) return;
  CallMachine(*loops_[to],
              [&, peer = c.peer[1]](Machine& m, Network& network) { m.OnClosed(now_, peer, network); });
}

bool SimNetwork::HasRoom(const SimLoop::Peer& peer) {
  Connection& c = connections_[peer.connection];
  if (!c.open || c.in_flight[peer.side] <= options_.room_bytes) return true;
  c.without_room[peer.side] = true;
  return false;
}

void SimNetwork::SubtractInFlight(uint32_t connection, uint8_t side, uint64_t bytes) {
  Connection& c = connections_[connection];
  c.in_flight[side] -= bytes;
  if (!c.without_room[side] || c.in_flight[side] > options_.room_bytes / 2) return;
  c.without_room[side] = false;
  Push(now_, EventKind::kRoom, connection, side);
}

void SimNetwork::ReportRoom(uint32_t connection, uint8_t side) {
  const Connection& c = connections_[connection];
  SimLoop& loop = *loops_[c.loop[side]];
  if (loop.ended()) return;
  Log(Fate::kRoom, c.loop[side], c.loop[side], nullptr);
  EndBurst(loop);
  if (loop.ended()) return;
  CallMachine(loop,
              [&, peer = c.peer[side]](Machine& m, Network& network) { m.OnRoom(now_, peer, network); });
}

void SimNetwork::Push(Time time, EventKind kind, uint32_t subject, uint64_t generation) {
  events_.push({time, sequence_++, kind, subject, generation});
}

PeerId SimNetwork::Connect(SimLoop& loop, const std::string& address) {
  const auto index = address.starts_with(kScheme) ? ParseInt(std::string_view(address).substr(kScheme.size()))
                                                  : std::nullopt;
  if (!index || *index < 0 || *index > UINT32_MAX) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("'", address, "' is no address of a simulation: sim://<n>"));
  }
  loop.peers_.push_back({static_cast<uint32_t>(connections_.size()), 0});
  const PeerId peer{loop.peers_.size()};
  connections_.push_back({.loop = {loop.index_, static_cast<uint32_t>(*index)}, .peer = {peer, PeerId{}}});
  return peer;
}

void SimNetwork::Send(SimLoop& loop, PeerId peer, wire::Message message) {
  ++counters_.sent;
  const bool known = peer.value != 0 && peer.value <= loop.peers_.size();
  if (!known || !connections_[loop.peers_[peer.value - 1].connection].open) {
    ++counters_.dropped;
    return Log(Fate::kNoReceiver, loop.index_, loop.index_, &message);
  }
  const SimLoop::Peer to = loop.peers_[peer.value - 1];
  Connection& connection = connections_[to.connection];
  const uint32_t target = connection.loop[1 - to.side];
  const uint64_t bytes = wire::PayloadBytes(message);
  uint64_t& in_flight = connection.in_flight[to.side];
  if (in_flight > 0 && in_flight + bytes > options_.max_queued_bytes) {
    ++counters_.dropped;
    ++counters_.overflowed;
    return Log(Fate::kOverflow, loop.index_, target, &message);
  }
  Log(Fate::kSent, loop.index_, target, &message);
  in_flight += bytes;
  if (target >= loops_.size()) {
    connection.waiting.push_back(std::move(message));
  } else {
    Dispatch(to.connection, to.side, std::move(message));
  }
}

void SimNetwork::Dispatch(uint32_t connection, uint8_t side, wire::Message message) {
  const SimFaults& faults = options_.faults;
  Connection& c = connections_[connection];
  const Departure departure = Transmit(c.loop[side], c.loop[1 - side], message);
  // Both are drawn for every message, so that the setting of one does not shift the draws of the other.
  const bool drop = rng_.Chance(faults.drop), duplicate = rng_.Chance(faults.duplicate);
  if (drop) {
    ++counters_.dropped;
    SubtractInFlight(connection, side, wire::PayloadBytes(message));
    return Log(Fate::kDropped, c.loop[side], c.loop[1 - side], &message);
  }
  if (duplicate) {
    ++counters_.duplicated;
    c.in_flight[side] += wire::PayloadBytes(message);
    Launch(connection, side, departure, message);
  }
  Launch(connection, side, departure, std::move(message));
}

SimNetwork::Departure SimNetwork::Transmit(uint32_t from, uint32_t to, const wire::Message& message) {
  SimHost& host = hosts_[loops_[from]->host_];
  const SimHost& other = hosts_[loops_[to]->host_];
  if (&host == &other || !(host.transmit.limited() || other.receive.limited())) return {0, now_, now_};
  const uint64_t outside = wire::IsPayloadInline(message) ? 0 : wire::PayloadBytes(message);
  const uint64_t bytes = wire::EncodeEnvelope(message).size() + outside;
  const Time last = host.transmit.Pass(now_, bytes);
  return {bytes, last - host.transmit.TimeOf(bytes), last};
}

void SimNetwork::Launch(uint32_t connection, uint8_t side, const Departure& departure,
                        wire::Message message) {
  const SimFaults& faults = options_.faults;
  const auto spread = static_cast<uint64_t>((faults.max_delay - faults.min_delay).count());
  Time reach = departure.first + faults.min_delay + Duration(rng_.Below(spread + 1));
  Connection& c = connections_[connection];
  const bool overtakes = rng_.Chance(faults.reorder);
  if (!overtakes) reach = std::max(reach, c.last_arrival[side]);
  const Time last = reach + (departure.last - departure.first);
  if (!overtakes) c.last_arrival[side] = last;
  Flight flight{connection, side, last, departure.bytes, std::move(message)};
  uint32_t slot;
  if (free_flights_.empty()) {
    slot = static_cast<uint32_t>(flights_.size());
    flights_.push_back(std::move(flight));
  } else {
    slot = free_flights_.back();
    free_flights_.pop_back();
    flights_[slot] = std::move(flight);
  }
  const bool queues = departure.bytes > 0 && hosts_[loops_[c.loop[1 - side]]->host_].receive.limited();
  Push(queues ? reach : last, queues ? EventKind::kReach : EventKind::kArrival, slot);
}

void SimNetwork::Reach(uint32_t slot) {
  const Flight& flight = flights_[slot];
  SimLoop& to = *loops_[connections_[flight.connection].loop[1 - flight.side]];
  const Time passed = hosts_[to.host_].receive.Pass(now_, flight.bytes);
  Push(std::max(flight.last, passed), EventKind::kArrival, slot);
}

void SimNetwork::Arrive(uint32_t slot) {
  Flight flight = std::move(flights_[slot]);
  free_flights_.push_back(slot);
  Connection& c = connections_[flight.connection];
  const uint8_t side = flight.side;
  const uint32_t from = c.loop[side], to = c.loop[1 - side];
  SimLoop& loop = *loops_[to];
  wire::Message& message = flight.message;
  SubtractInFlight(flight.connection, side, wire::PayloadBytes(message));

  const bool cut = IsCut(from, to);
  if (cut || loop.ended() || !c.open) {
    ++counters_.dropped;
    return Log(cut ? Fate::kCut : Fate::kNoReceiver, from, to, &message);
  }
  if (const Status status = Check(&message); !status.ok()) {
    ++counters_.refused;
    LOG(WARNING) << loop.name_ << " refused a message of " << NameOf(from) << ": "
                 << status.failure().message;
    return Log(Fate::kRefused, from, to, &message);
  }
  PeerId& peer = c.peer[1 - side];
  if (peer.value == 0) {
    loop.peers_.push_back({flight.connection, static_cast<uint8_t>(1 - side)});
    peer.value = loop.peers_.size();
  }
  ++counters_.delivered;
  Log(Fate::kArrived, from, to, &message);
  CallMachine(loop, [&, from_peer = peer](Machine& m, Network& network) {
    m.OnMessage(now_, from_peer, std::move(message), network);
  });
  if (loop.ended()) return;
  loop.busy_ = true;
  if (options_.busy > 0 && rng_.Chance(options_.busy)) {
    const auto spread = static_cast<uint64_t>(options_.faults.max_delay.count());
    return Push(now_ + Duration(rng_.Below(spread + 1)), EventKind::kBurstEnd, to);
  }
  EndBurst(loop);
}

void SimNetwork::EndBurst(SimLoop& loop) {
  if (std::exchange(loop.busy_, false))
    CallMachine(loop, [&](Machine& m, Network& network) { m.OnBurstEnd(now_, network); });
}

// Makes `message` what a real receiver would get: checked, with its payload copied or leased from the sender.
Status SimNetwork::Check(wire::Message* message) {
  if (rng_.Chance(options_.codec)) {
    auto decoded = wire::DecodeEnvelope(wire::EncodeEnvelope(*message).bytes(), options_.limits);
    if (!decoded.ok()) return decoded.failure();
    wire::Frames payload = std::move(message->payload);
    *message = std::move(decoded).value();
    message->payload = std::move(payload);
  }
  for (Frame& frame : message->payload)
    frame = options_.shares_memory ? SimLeased(frame.bytes(), frame.owner()) : Frame::Copy(frame.bytes());
  return wire::ValidatePayload(*message, options_.limits);
}

}  // namespace sluice::transport
