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
#include "transport/sim/sim_port.h"

namespace sluice::transport {
namespace {

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

// Sends `message` through the link of `from` to a loop on `to`.
SimDeparture Transmit(Time now, SimHost& from, const SimHost& to, const wire::Message& message) {
  if (&from == &to || !(from.transmit.limited() || to.receive.limited())) return {0, now, now};
  const uint64_t outside = wire::IsPayloadInline(message) ? 0 : wire::PayloadBytes(message);
  const uint64_t bytes = wire::EncodeEnvelope(message).size() + outside;
  const Time last = from.transmit.Pass(now, bytes);
  return {bytes, last - from.transmit.TimeOf(bytes), last};
}

// Makes `message` what a real receiver would get: checked, with its payload copied or leased from the sender.
Status Receive(const SimOptions& options, Rng* rng, wire::Message* message) {
  if (rng->Chance(options.codec)) {
    auto decoded = wire::DecodeEnvelope(wire::EncodeEnvelope(*message).bytes(), options.limits);
    if (!decoded.ok()) return decoded.failure();
    wire::Frames payload = std::move(message->payload);
    *message = std::move(decoded).value();
    message->payload = std::move(payload);
  }
  for (Frame& frame : message->payload)
    frame = options.shares_memory ? SimLeased(frame.bytes(), frame.owner()) : Frame::Copy(frame.bytes());
  return wire::ValidatePayload(*message, options.limits);
}

}  // namespace

SimNetwork::SimNetwork(const SimOptions& options)
    : options_(options), rng_(options_.seed), now_(kBegin), history_(options_.seed, options_.log_entries) {
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

SimLoop& SimNetwork::Start(std::string name, std::shared_ptr<StateMachine> machine, const SimLoop* beside) {
  const auto index = static_cast<uint32_t>(loops_.size());
  const uint32_t host = beside ? beside->host_ : static_cast<uint32_t>(hosts_.size());
  if (!beside) hosts_.emplace_back(options_.link);
  loops_.push_back(
      std::unique_ptr<SimLoop>(new SimLoop(*this, index, host, std::move(name), std::move(machine))));
  events_.Push(now_, SimEventKind::kStart, index);
  for (uint32_t c = 0; c < connections_.size(); ++c) {
    if (connections_[c].loop[1] != index) continue;
    for (wire::Message& message : std::exchange(connections_[c].waiting, {}))
      Dispatch(c, 0, std::move(message));
  }
  return *loops_.back();
}

void SimNetwork::Crash(SimLoop& loop) {
  if (loop.ended()) return;
  history_.Add(now_, SimFate::kCrashed, loop.index_, loop.index_, nullptr);
  loop.machine_.reset();
  loop.tasks_.clear();
}

void SimNetwork::Partition(const std::vector<const SimLoop*>& a, const std::vector<const SimLoop*>& b,
                           Time until) {
  const auto indices = [](const std::vector<const SimLoop*>& loops) {
    std::set<uint32_t> set;
    for (const SimLoop* loop : loops) set.insert(loop->index_);
    return set;
  };
  partitions_.Add(indices(a), indices(b), until);
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
  const std::optional<SimEvent> event = events_.Pop(deadline);
  if (!event) {
    now_ = std::max(now_, deadline);
    return false;
  }
  now_ = std::max(now_, event->time);
  Act(*event);
  return true;
}

void SimNetwork::Act(const SimEvent& event) {
  if (event.kind == SimEventKind::kReach) return Reach(event.subject);
  if (event.kind == SimEventKind::kArrival) return Arrive(event.subject);
  if (event.kind == SimEventKind::kClosed) return Close(event.subject);
  if (event.kind == SimEventKind::kRoom)
    return ReportRoom(event.subject, static_cast<uint8_t>(event.generation));
  SimLoop& loop = *loops_[event.subject];
  if (loop.ended()) return;
  EndBurst(loop);
  if (loop.ended()) return;
  switch (event.kind) {
    case SimEventKind::kStart:
      history_.Add(now_, SimFate::kStarted, event.subject, event.subject, nullptr);
      return CallStateMachine(loop, [&](StateMachine& m, Network& network) { m.OnStart(now_, network); });
    case SimEventKind::kTask: {
      history_.Add(now_, SimFate::kTask, event.subject, event.subject, nullptr);
      Loop::Task task = std::move(loop.tasks_.front());
      loop.tasks_.pop_front();
      return CallStateMachine(loop, [&](StateMachine&, Network& network) { task(now_, network); });
    }
    case SimEventKind::kTimer:
      if (event.generation != loop.timer_generation_) return;
      SLUICE_CHECK(++loop.timers_at_once_ < kMaxTimersAtOnce)
          << loop.name_ << "'s timer fires without end at the same moment: NextTimer must move on\n"
          << LogText();
      loop.timer_ = Time::max();
      history_.Add(now_, SimFate::kTimer, event.subject, event.subject, nullptr);
      return CallStateMachine(loop, [&](StateMachine& m, Network& network) { m.OnTimer(now_, network); });
    case SimEventKind::kReach:
    case SimEventKind::kArrival:
    case SimEventKind::kBurstEnd:
    case SimEventKind::kClosed:
    case SimEventKind::kRoom:
      return;
  }
}

template <typename Call>
void SimNetwork::CallStateMachine(SimLoop& loop, Call&& call) {
  const std::shared_ptr<StateMachine> machine = loop.machine_;  // the call may crash the loop
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
  events_.Push(std::max(timer, now_), SimEventKind::kTimer, loop.index_, loop.timer_generation_);
}

// Ends a loop whose machine is Done: the machine gets OnEnd. The loops that it had connected to get OnClosed,
// after the messages that it has sent.
void SimNetwork::End(SimLoop& loop) {
  history_.Add(now_, SimFate::kEnded, loop.index_, loop.index_, nullptr);
  const std::shared_ptr<StateMachine> machine = loop.machine_;
  SimLoop::Port port(loop);
  ++counters_.steps;
  machine->OnEnd(now_, "the loop has ended", port);
  loop.machine_.reset();
  loop.tasks_.clear();
  for (const SimLoop::Peer& peer : loop.peers_) {
    const Connection& c = connections_[peer.connection];
    if (peer.side == 0 && c.open)
      events_.Push(std::max(c.last_arrival[0], now_ + options_.faults.min_delay), SimEventKind::kClosed,
                   peer.connection);
  }
}

void SimNetwork::Close(uint32_t connection) {
  const Connection& c = connections_[connection];
  const uint32_t to = c.loop[1];
  if (to >= loops_.size() || loops_[to]->ended()) return;
  // Messages that were sent before may still be in the receiver's link.
  if (const Time free = hosts_[loops_[to]->host_].receive.free(); free > now_)
    return events_.Push(free, SimEventKind::kClosed, connection);
  if (c.peer[1].value == 0 || partitions_.IsCut(c.loop[0], to, now_)) return;
  history_.Add(now_, SimFate::kClosed, c.loop[0], to, nullptr);
  EndBurst(*loops_[to]);
  if (loops_[to]->ended()) return;
  CallStateMachine(*loops_[to], [&, peer = c.peer[1]](StateMachine& m, Network& network) {
    m.OnClosed(now_, peer, network);
  });
}

void SimNetwork::SubtractInFlight(uint32_t connection, uint8_t side, uint64_t bytes) {
  Connection& c = connections_[connection];
  c.in_flight[side] -= bytes;
  if (!c.without_room[side] || c.in_flight[side] > options_.room_bytes / 2) return;
  c.without_room[side] = false;
  events_.Push(now_, SimEventKind::kRoom, connection, side);
}

void SimNetwork::ReportRoom(uint32_t connection, uint8_t side) {
  const Connection& c = connections_[connection];
  SimLoop& loop = *loops_[c.loop[side]];
  if (loop.ended()) return;
  history_.Add(now_, SimFate::kRoom, c.loop[side], c.loop[side], nullptr);
  EndBurst(loop);
  if (loop.ended()) return;
  CallStateMachine(
      loop, [&, peer = c.peer[side]](StateMachine& m, Network& network) { m.OnRoom(now_, peer, network); });
}

void SimNetwork::Dispatch(uint32_t connection, uint8_t side, wire::Message message) {
  const SimFaults& faults = options_.faults;
  Connection& c = connections_[connection];
  const SimDeparture departure =
      Transmit(now_, hosts_[loops_[c.loop[side]]->host_], hosts_[loops_[c.loop[1 - side]]->host_], message);
  // Both are drawn for every message, so that the setting of one does not shift the draws of the other.
  const bool drop = rng_.Chance(faults.drop), duplicate = rng_.Chance(faults.duplicate);
  if (drop) {
    ++counters_.dropped;
    SubtractInFlight(connection, side, wire::PayloadBytes(message));
    return history_.Add(now_, SimFate::kDropped, c.loop[side], c.loop[1 - side], &message);
  }
  if (duplicate) {
    ++counters_.duplicated;
    c.in_flight[side] += wire::PayloadBytes(message);
    Launch(connection, side, departure, message);
  }
  Launch(connection, side, departure, std::move(message));
}

void SimNetwork::Launch(uint32_t connection, uint8_t side, const SimDeparture& departure,
                        wire::Message message) {
  const SimFaults& faults = options_.faults;
  const auto spread = static_cast<uint64_t>((faults.max_delay - faults.min_delay).count());
  Time reach = departure.first + faults.min_delay + Duration(rng_.Below(spread + 1));
  Connection& c = connections_[connection];
  const bool overtakes = rng_.Chance(faults.reorder);
  if (!overtakes) reach = std::max(reach, c.last_arrival[side]);
  const Time last = reach + (departure.last - departure.first);
  if (!overtakes) c.last_arrival[side] = last;
  const uint32_t slot = flights_.Add({connection, side, last, departure.bytes, std::move(message)});
  const bool queues = departure.bytes > 0 && hosts_[loops_[c.loop[1 - side]]->host_].receive.limited();
  events_.Push(queues ? reach : last, queues ? SimEventKind::kReach : SimEventKind::kArrival, slot);
}

void SimNetwork::Reach(uint32_t slot) {
  const SimFlight& flight = flights_[slot];
  SimLoop& to = *loops_[connections_[flight.connection].loop[1 - flight.side]];
  const Time passed = hosts_[to.host_].receive.Pass(now_, flight.bytes);
  events_.Push(std::max(flight.last, passed), SimEventKind::kArrival, slot);
}

void SimNetwork::Arrive(uint32_t slot) {
  SimFlight flight = flights_.Take(slot);
  Connection& c = connections_[flight.connection];
  const uint8_t side = flight.side;
  const uint32_t from = c.loop[side], to = c.loop[1 - side];
  SimLoop& loop = *loops_[to];
  wire::Message& message = flight.message;
  SubtractInFlight(flight.connection, side, wire::PayloadBytes(message));

  const bool cut = partitions_.IsCut(from, to, now_);
  if (cut || loop.ended() || !c.open) {
    ++counters_.dropped;
    return history_.Add(now_, cut ? SimFate::kCut : SimFate::kNoReceiver, from, to, &message);
  }
  if (const Status status = Receive(options_, &rng_, &message); !status.ok()) {
    ++counters_.refused;
    LOG(WARNING) << loop.name_ << " refused a message of " << NameOf(from) << ": "
                 << status.failure().message;
    return history_.Add(now_, SimFate::kRefused, from, to, &message);
  }
  PeerId& peer = c.peer[1 - side];
  if (peer.value == 0) {
    loop.peers_.push_back({flight.connection, static_cast<uint8_t>(1 - side)});
    peer.value = loop.peers_.size();
  }
  ++counters_.delivered;
  history_.Add(now_, SimFate::kArrived, from, to, &message);
  CallStateMachine(loop, [&, from_peer = peer](StateMachine& m, Network& network) {
    m.OnMessage(now_, from_peer, std::move(message), network);
  });
  if (loop.ended()) return;
  loop.busy_ = true;
  if (options_.busy > 0 && rng_.Chance(options_.busy)) {
    const auto spread = static_cast<uint64_t>(options_.faults.max_delay.count());
    return events_.Push(now_ + Duration(rng_.Below(spread + 1)), SimEventKind::kBurstEnd, to);
  }
  EndBurst(loop);
}

void SimNetwork::EndBurst(SimLoop& loop) {
  if (std::exchange(loop.busy_, false))
    CallStateMachine(loop, [&](StateMachine& m, Network& network) { m.OnBurstEnd(now_, network); });
}

std::string_view SimNetwork::NameOf(uint32_t loop) const {
  return loop < loops_.size() ? std::string_view(loops_[loop]->name()) : "no loop yet";
}

std::string SimNetwork::LogText() const {
  std::string text =
      StrCat("seed ", options_.seed, ", ", counters_.steps, " steps, ", counters_.delivered, " delivered, ",
             counters_.dropped, " dropped, ", counters_.duplicated, " duplicated\n");
  text += history_.Text(kBegin, [this](uint32_t loop) { return NameOf(loop); });
  for (const auto& loop : loops_) {
    if (!loop->ended()) text += StrCat("--- ", loop->name(), "\n", loop->machine_->DumpState(now_), "\n");
  }
  return text;
}

}  // namespace sluice::transport
