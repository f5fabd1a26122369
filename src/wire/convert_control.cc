// Converts the bodies of joining, membership, barriers, leaving, shared memory and statistics to
// and from protobuf's classes. FromWire checks enums, and bounds texts and lists by Limits; whether
// the sender may send such a message is checked by the machine that gets it. Called by
// convert_body.cc, on any thread; no state.
#include "control.pb.h"
#include "node.pb.h"
#include "wire/convert.h"

namespace sluice::wire {
namespace {

void ToWire(const NodeInfo& in, pb::NodeInfo* out) {
  out->set_role(EnumToWire<pb::Role>(in.role));
  out->set_rank(in.rank);
  out->set_incarnation(in.incarnation);
  out->set_state(EnumToWire<pb::NodeState>(in.state));
  out->set_host(in.host);
  out->set_pid(in.pid);
  for (const std::string& address : in.shard_addresses) out->add_shard_addresses(address);
}

template <typename Field>
bool AddressesFromWire(const Field& in, Checker& checker, std::vector<std::string>* out) {
  if (!checker.Count(in.size(), checker.limits().max_nodes, "shard addresses")) return false;
  out->resize(in.size());
  for (int i = 0; i < in.size(); ++i) {
    if (!checker.Text(in[i], "a shard address", &(*out)[i])) return false;
  }
  return true;
}

bool FromWire(const pb::NodeInfo& in, Checker& checker, NodeInfo* out) {
  out->rank = in.rank();
  out->incarnation = in.incarnation();
  out->pid = in.pid();
  return checker.Enum(in.role(), Role::kWorker, "role", &out->role) &&
         checker.Enum(in.state(), NodeState::kFinished, "node state", &out->state) &&
         checker.Text(in.host(), "host", &out->host) &&
         AddressesFromWire(in.shard_addresses(), checker, &out->shard_addresses);
}

void RosterToWire(const std::vector<NodeInfo>& in, google::protobuf::RepeatedPtrField<pb::NodeInfo>* out) {
  out->Reserve(static_cast<int>(in.size()));
  for (const NodeInfo& node : in) ToWire(node, out->Add());
}

bool RosterFromWire(const google::protobuf::RepeatedPtrField<pb::NodeInfo>& in, Checker& checker,
                    std::vector<NodeInfo>* out) {
  if (!checker.Count(in.size(), checker.limits().max_nodes, "nodes")) return false;
  out->resize(in.size());
  for (int i = 0; i < in.size(); ++i) {
    if (!FromWire(in[i], checker, &(*out)[i])) return false;
  }
  return true;
}

}  // namespace

void ToWire(const Register& in, pb::Register* out) {
  out->set_role(EnumToWire<pb::Role>(in.role));
  out->set_identity(in.identity);
  out->set_requested_rank(in.requested_rank);
  out->set_host(in.host);
  out->set_pid(in.pid);
  out->set_num_workers(in.num_workers);
  out->set_num_servers(in.num_servers);
  for (const std::string& address : in.shard_addresses) out->add_shard_addresses(address);
  out->set_server_threads(in.server_threads);
  out->set_default_server_threads(in.default_server_threads);
  out->set_heartbeat_ms(in.heartbeat_ms);
}
bool FromWire(const pb::Register& in, Checker& checker, Register* out) {
  out->requested_rank = in.requested_rank();
  out->pid = in.pid();
  out->num_workers = in.num_workers();
  out->num_servers = in.num_servers();
  out->server_threads = in.server_threads();
  out->default_server_threads = in.default_server_threads();
  out->heartbeat_ms = in.heartbeat_ms();
  if (out->requested_rank < -1) return checker.Reject("requested rank is ", out->requested_rank);
  return checker.Enum(in.role(), Role::kWorker, "role", &out->role) &&
         checker.Text(in.identity(), "identity", &out->identity) &&
         checker.Text(in.host(), "host", &out->host) &&
         AddressesFromWire(in.shard_addresses(), checker, &out->shard_addresses);
}

void ToWire(const Welcome& in, pb::Welcome* out) {
  out->set_state(EnumToWire<pb::Welcome::State>(in.state));
  out->set_rank(in.rank);
  out->set_missing(in.missing);
  RosterToWire(in.roster, out->mutable_roster());
  out->set_server_threads(in.server_threads);
}
bool FromWire(const pb::Welcome& in, Checker& checker, Welcome* out) {
  out->rank = in.rank();
  out->server_threads = in.server_threads();
  return checker.Enum(in.state(), Welcome::State::kComplete, "welcome state", &out->state) &&
         checker.Text(in.missing(), "the list of missing nodes", &out->missing) &&
         RosterFromWire(in.roster(), checker, &out->roster);
}

void ToWire(const Heartbeat& in, pb::Heartbeat* out) {
  out->set_asks_to_end(in.asks_to_end);
}
bool FromWire(const pb::Heartbeat& in, Checker&, Heartbeat* out) {
  out->asks_to_end = in.asks_to_end();
  return true;
}
void ToWire(const HeartbeatAck& in, pb::HeartbeatAck* out) {
  out->set_asked_to_end(in.asked_to_end);
}
bool FromWire(const pb::HeartbeatAck& in, Checker&, HeartbeatAck* out) {
  out->asked_to_end = in.asked_to_end();
  return true;
}
void ToWire(const GetMembership&, pb::GetMembership*) {}
bool FromWire(const pb::GetMembership&, Checker&, GetMembership*) {
  return true;
}

void ToWire(const Membership& in, pb::Membership* out) {
  RosterToWire(in.roster, out->mutable_roster());
}
bool FromWire(const pb::Membership& in, Checker& checker, Membership* out) {
  return RosterFromWire(in.roster(), checker, &out->roster);
}

void ToWire(const Barrier& in, pb::Barrier* out) {
  out->set_id(in.id);
  out->set_group(EnumToWire<pb::Barrier::Group>(in.group));
  out->mutable_ranks()->Add(in.ranks.begin(), in.ranks.end());
  out->set_text(in.text);
}
bool FromWire(const pb::Barrier& in, Checker& checker, Barrier* out) {
  if (!checker.Count(in.ranks_size(), checker.limits().max_nodes, "barrier ranks")) return false;
  out->ranks.assign(in.ranks().begin(), in.ranks().end());
  return checker.Enum(in.group(), Barrier::Group::kRanks, "barrier group", &out->group) &&
         checker.Text(in.id(), "barrier id", &out->id) &&
         checker.Text(in.text(), "a barrier's text", &out->text);
}

void ToWire(const StillWaiting& in, pb::StillWaiting* out) {
  out->set_id(in.id);
  out->set_missing(in.missing);
}
bool FromWire(const pb::StillWaiting& in, Checker& checker, StillWaiting* out) {
  return checker.Text(in.id(), "barrier id", &out->id) &&
         checker.Text(in.missing(), "the list of missing nodes", &out->missing);
}

void ToWire(const BarrierReleased& in, pb::BarrierReleased* out) {
  out->set_text(in.text);
}
bool FromWire(const pb::BarrierReleased& in, Checker& checker, BarrierReleased* out) {
  return checker.Text(in.text(), "a barrier's text", &out->text);
}

void ToWire(const Leave& in, pb::Leave* out) {
  out->set_outcome(EnumToWire<pb::Leave::Outcome>(in.outcome));
  out->set_message(in.message);
}
bool FromWire(const pb::Leave& in, Checker& checker, Leave* out) {
  return checker.Enum(in.outcome(), Leave::Outcome::kFailed, "outcome", &out->outcome) &&
         checker.Text(in.message(), "message", &out->message);
}

void ToWire(const Stop& in, pb::Stop* out) {
  out->set_reason(EnumToWire<pb::Stop::Reason>(in.reason));
  out->set_message(in.message);
  RosterToWire(in.roster, out->mutable_roster());
}
bool FromWire(const pb::Stop& in, Checker& checker, Stop* out) {
  return checker.Enum(in.reason(), Stop::Reason::kFailed, "stop reason", &out->reason) &&
         checker.Text(in.message(), "message", &out->message) &&
         RosterFromWire(in.roster(), checker, &out->roster);
}

void ToWire(const AwaitOptimizer& in, pb::AwaitOptimizer* out) {
  out->set_store(in.store);
}
bool FromWire(const pb::AwaitOptimizer& in, Checker& checker, AwaitOptimizer* out) {
  return checker.StoreNumber(in.store(), &out->store);
}

void ToWire(const GetMemory&, pb::GetMemory*) {}
bool FromWire(const pb::GetMemory&, Checker&, GetMemory*) {
  return true;
}

void ToWire(const MemoryOffer& in, pb::MemoryOffer* out) {
  out->set_rendezvous(in.rendezvous);
  out->set_token(in.token);
  out->set_why(in.why);
}
bool FromWire(const pb::MemoryOffer& in, Checker& checker, MemoryOffer* out) {
  return checker.Text(in.rendezvous(), "a memory offer's rendezvous", &out->rendezvous) &&
         checker.Text(in.token(), "its token", &out->token) &&
         checker.Text(in.why(), "its reason", &out->why);
}

void ToWire(const GetStats&, pb::GetStats*) {}
bool FromWire(const pb::GetStats&, Checker&, GetStats*) {
  return true;
}

void ToWire(const Stats& in, pb::Stats* out) {
  for (const auto& [name, value] : in.counters) {
    pb::Stats::Counter* counter = out->add_counters();
    counter->set_name(name);
    counter->set_value(value);
  }
}
bool FromWire(const pb::Stats& in, Checker& checker, Stats* out) {
  if (!checker.Count(in.counters_size(), checker.limits().max_keys, "counters")) return false;
  for (const pb::Stats::Counter& counter : in.counters()) {
    std::string name;
    if (!checker.Text(counter.name(), "counter name", &name)) return false;
    if (!out->counters.emplace(std::move(name), counter.value()).second) {
      return checker.Reject("counter '", counter.name(), "' is named twice");
    }
  }
  return true;
}

void ToWire(const Ack&, pb::Ack*) {}
bool FromWire(const pb::Ack&, Checker&, Ack*) {
  return true;
}

void ToWire(const ErrorReply& in, pb::ErrorReply* out) {
  out->set_code(EnumToWire<pb::ErrorReply::Code>(in.code));
  out->set_message(in.message);
}
bool FromWire(const pb::ErrorReply& in, Checker& checker, ErrorReply* out) {
  return checker.Enum(in.code(), ErrorCode::kCancelled, "error code", &out->code) &&
         checker.Text(in.message(), "message", &out->message);
}

}  // namespace sluice::wire
