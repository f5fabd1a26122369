#include <utility>

#include "base/strings.h"
#include "sluice/error.h"
#include "transport/sim/sim_port.h"

namespace sluice::transport {
namespace {

constexpr std::string_view kScheme = "sim://";

}  // namespace

PeerId SimLoop::Port::Connect(const std::string& address) {
  const auto index = address.starts_with(kScheme) ? ParseInt(std::string_view(address).substr(kScheme.size()))
                                                  : std::nullopt;
  if (!index || *index < 0 || *index > UINT32_MAX) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("'", address, "' is no address of a simulation: sim://<n>"));
  }
  loop_.peers_.push_back({static_cast<uint32_t>(loop_.sim_.connections_.size()), 0});
  const PeerId peer{loop_.peers_.size()};
  loop_.sim_.connections_.push_back(
      {.loop = {loop_.index_, static_cast<uint32_t>(*index)}, .peer = {peer, PeerId{}}});
  return peer;
}

void SimLoop::Port::Send(PeerId peer, wire::Message message) {
  SimNetwork& sim = loop_.sim_;
  ++sim.counters_.sent;
  const Peer* to = Find(peer);
  if (to == nullptr || !sim.connections_[to->connection].open) {
    ++sim.counters_.dropped;
    return sim.history_.Add(sim.now_, SimFate::kNoReceiver, loop_.index_, loop_.index_, &message);
  }
  SimNetwork::Connection& connection = sim.connections_[to->connection];
  const uint32_t target = connection.loop[1 - to->side];
  const uint64_t bytes = wire::PayloadBytes(message);
  uint64_t& in_flight = connection.in_flight[to->side];
  if (in_flight > 0 && in_flight + bytes > sim.options_.max_queued_bytes) {
    ++sim.counters_.dropped;
    ++sim.counters_.overflowed;
    return sim.history_.Add(sim.now_, SimFate::kOverflow, loop_.index_, target, &message);
  }
  sim.history_.Add(sim.now_, SimFate::kSent, loop_.index_, target, &message);
  in_flight += bytes;
  if (target >= sim.loops_.size()) {
    connection.waiting.push_back(std::move(message));
  } else {
    sim.Dispatch(to->connection, to->side, std::move(message));
  }
}

bool SimLoop::Port::HasRoom(PeerId peer) {
  const Peer* p = Find(peer);
  if (p == nullptr) return true;
  SimNetwork::Connection& c = loop_.sim_.connections_[p->connection];
  if (!c.open || c.in_flight[p->side] <= loop_.sim_.options_.room_bytes) return true;
  c.without_room[p->side] = true;
  return false;
}

SimLoop::SimLoop(SimNetwork& sim, uint32_t index, uint32_t host, std::string name,
                 std::shared_ptr<StateMachine> machine)
    : sim_(sim),
      index_(index),
      host_(host),
      name_(std::move(name)),
      machine_(std::move(machine)),
      addresses_{StrCat(kScheme, index)} {}

bool SimLoop::Post(Task task) {
  if (ended()) return false;
  tasks_.push_back(std::move(task));
  sim_.events_.Push(sim_.now_, SimEventKind::kTask, index_);
  return true;
}

}  // namespace sluice::transport
