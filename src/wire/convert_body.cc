// Maps each kind of body to its field of the envelope: Mutable for encoding, the switch of BodyFromWire for
// decoding. A new kind of body needs an entry in both; the compiler rejects a missing Mutable, and warns of a
// missing case. Called by generated_codec.cc, on any thread; no state.
#include "envelope.pb.h"
#include "wire/convert.h"

namespace sluice::wire {
namespace {

pb::Register* Mutable(pb::Envelope* e, const Register&) {
  return e->mutable_register_node();
}
pb::Welcome* Mutable(pb::Envelope* e, const Welcome&) {
  return e->mutable_welcome();
}
pb::Heartbeat* Mutable(pb::Envelope* e, const Heartbeat&) {
  return e->mutable_heartbeat();
}
pb::HeartbeatAck* Mutable(pb::Envelope* e, const HeartbeatAck&) {
  return e->mutable_heartbeat_ack();
}
pb::GetMembership* Mutable(pb::Envelope* e, const GetMembership&) {
  return e->mutable_get_membership();
}
pb::Membership* Mutable(pb::Envelope* e, const Membership&) {
  return e->mutable_membership();
}
pb::DeclareKeys* Mutable(pb::Envelope* e, const DeclareKeys&) {
  return e->mutable_declare_keys();
}
pb::KeyTable* Mutable(pb::Envelope* e, const KeyTable&) {
  return e->mutable_key_table();
}
pb::AnnounceKeys* Mutable(pb::Envelope* e, const AnnounceKeys&) {
  return e->mutable_announce_keys();
}
pb::Push* Mutable(pb::Envelope* e, const Push&) {
  return e->mutable_push();
}
pb::Pull* Mutable(pb::Envelope* e, const Pull&) {
  return e->mutable_pull();
}
pb::PullRows* Mutable(pb::Envelope* e, const PullRows&) {
  return e->mutable_pull_rows();
}
pb::GetRowIds* Mutable(pb::Envelope* e, const GetRowIds&) {
  return e->mutable_get_row_ids();
}
pb::RowIds* Mutable(pb::Envelope* e, const RowIds&) {
  return e->mutable_row_ids();
}
pb::Values* Mutable(pb::Envelope* e, const Values&) {
  return e->mutable_values();
}
pb::Store* Mutable(pb::Envelope* e, const Store&) {
  return e->mutable_store();
}
pb::SetOptimizer* Mutable(pb::Envelope* e, const SetOptimizer&) {
  return e->mutable_set_optimizer();
}
pb::Barrier* Mutable(pb::Envelope* e, const Barrier&) {
  return e->mutable_barrier();
}
pb::StillWaiting* Mutable(pb::Envelope* e, const StillWaiting&) {
  return e->mutable_still_waiting();
}
pb::BarrierReleased* Mutable(pb::Envelope* e, const BarrierReleased&) {
  return e->mutable_barrier_released();
}
pb::Leave* Mutable(pb::Envelope* e, const Leave&) {
  return e->mutable_leave();
}
pb::Stop* Mutable(pb::Envelope* e, const Stop&) {
  return e->mutable_stop();
}
pb::AwaitOptimizer* Mutable(pb::Envelope* e, const AwaitOptimizer&) {
  return e->mutable_await_optimizer();
}
pb::GetMemory* Mutable(pb::Envelope* e, const GetMemory&) {
  return e->mutable_get_memory();
}
pb::MemoryOffer* Mutable(pb::Envelope* e, const MemoryOffer&) {
  return e->mutable_memory_offer();
}
pb::GetStats* Mutable(pb::Envelope* e, const GetStats&) {
  return e->mutable_get_stats();
}
pb::Stats* Mutable(pb::Envelope* e, const Stats&) {
  return e->mutable_stats();
}
pb::Ack* Mutable(pb::Envelope* e, const Ack&) {
  return e->mutable_ack();
}
pb::ErrorReply* Mutable(pb::Envelope* e, const ErrorReply&) {
  return e->mutable_error_reply();
}

template <typename T, typename P>
bool ReadBody(const P& in, Checker& checker, Body* out) {
  return FromWire(in, checker, &out->emplace<T>());
}

}  // namespace

void BodyToWire(const Body& in, pb::Envelope* out) {
  std::visit([out](const auto& body) { ToWire(body, Mutable(out, body)); }, in);
}

bool BodyFromWire(const pb::Envelope& in, Checker& checker, Body* out) {
  switch (in.body_case()) {
    case pb::Envelope::kRegisterNode:
      return ReadBody<Register>(in.register_node(), checker, out);
    case pb::Envelope::kWelcome:
      return ReadBody<Welcome>(in.welcome(), checker, out);
    case pb::Envelope::kHeartbeat:
      return ReadBody<Heartbeat>(in.heartbeat(), checker, out);
    case pb::Envelope::kHeartbeatAck:
      return ReadBody<HeartbeatAck>(in.heartbeat_ack(), checker, out);
    case pb::Envelope::kGetMembership:
      return ReadBody<GetMembership>(in.get_membership(), checker, out);
    case pb::Envelope::kMembership:
      return ReadBody<Membership>(in.membership(), checker, out);
    case pb::Envelope::kDeclareKeys:
      return ReadBody<DeclareKeys>(in.declare_keys(), checker, out);
    case pb::Envelope::kKeyTable:
      return ReadBody<KeyTable>(in.key_table(), checker, out);
    case pb::Envelope::kAnnounceKeys:
      return ReadBody<AnnounceKeys>(in.announce_keys(), checker, out);
    case pb::Envelope::kPush:
      return ReadBody<Push>(in.push(), checker, out);
    case pb::Envelope::kPull:
      return ReadBody<Pull>(in.pull(), checker, out);
    case pb::Envelope::kPullRows:
      return ReadBody<PullRows>(in.pull_rows(), checker, out);
    case pb::Envelope::kGetRowIds:
      return ReadBody<GetRowIds>(in.get_row_ids(), checker, out);
    case pb::Envelope::kRowIds:
      return ReadBody<RowIds>(in.row_ids(), checker, out);
    case pb::Envelope::kValues:
      return ReadBody<Values>(in.values(), checker, out);
    case pb::Envelope::kStore:
      return ReadBody<Store>(in.store(), checker, out);
    case pb::Envelope::kSetOptimizer:
      return ReadBody<SetOptimizer>(in.set_optimizer(), checker, out);
    case pb::Envelope::kBarrier:
      return ReadBody<Barrier>(in.barrier(), checker, out);
    case pb::Envelope::kStillWaiting:
      return ReadBody<StillWaiting>(in.still_waiting(), checker, out);
    case pb::Envelope::kBarrierReleased:
      return ReadBody<BarrierReleased>(in.barrier_released(), checker, out);
    case pb::Envelope::kLeave:
      return ReadBody<Leave>(in.leave(), checker, out);
    case pb::Envelope::kStop:
      return ReadBody<Stop>(in.stop(), checker, out);
    case pb::Envelope::kAwaitOptimizer:
      return ReadBody<AwaitOptimizer>(in.await_optimizer(), checker, out);
    case pb::Envelope::kGetMemory:
      return ReadBody<GetMemory>(in.get_memory(), checker, out);
    case pb::Envelope::kMemoryOffer:
      return ReadBody<MemoryOffer>(in.memory_offer(), checker, out);
    case pb::Envelope::kGetStats:
      return ReadBody<GetStats>(in.get_stats(), checker, out);
    case pb::Envelope::kStats:
      return ReadBody<Stats>(in.stats(), checker, out);
    case pb::Envelope::kAck:
      return ReadBody<Ack>(in.ack(), checker, out);
    case pb::Envelope::kErrorReply:
      return ReadBody<ErrorReply>(in.error_reply(), checker, out);
    case pb::Envelope::BODY_NOT_SET:
      return checker.Reject("it has no body that this version knows");
  }
  return checker.Reject("it has no body that this version knows");
}

}  // namespace sluice::wire
