// The bodies of the messages that carry parts: wire::Push, Pull, PullRows and Store, by the kind of the
// parts' operation. The client's loop calls FillMessage for each message and each repeat of it.
#include "worker/connection/batch_message.h"

namespace sluice::worker {
namespace {

wire::Store::Purpose PurposeOf(OpKind kind) {
  using Purpose = wire::Store::Purpose;
  switch (kind) {
    case OpKind::kInit:
      return Purpose::kInit;
    case OpKind::kState:
      return Purpose::kState;
    case OpKind::kSet:
      return Purpose::kWeight;
    default:
      return Purpose::kRows;
  }
}

wire::Pull::Want WantOf(OpKind kind) {
  using Want = wire::Pull::Want;
  return kind == OpKind::kPull ? Want::kValue : kind == OpKind::kVersion ? Want::kVersion : Want::kSet;
}

}  // namespace

void FillMessage(const PartOps& parts, wire::Message* message) {
  const Operation& first = *parts.front()->op;
  const auto add_frame = [&](const PartOp& part) {
    message->payload.push_back(part.op->source.Slice(part.source.offset, part.source.bytes));
  };
  switch (first.kind) {
    case OpKind::kPush:
    case OpKind::kPushPull: {
      wire::Push push{.samples = first.samples,
                      .divisor = first.divisor,
                      .parts = {},
                      .compression = first.compression.type,
                      .values = first.compression.weights,
                      .exponent = first.exponent};
      for (const PartOpPtr& part : parts) {
        push.parts.push_back({part->ref, part->round(), part->WantsValue()});
        add_frame(*part);
      }
      message->body = std::move(push);
      break;
    }
    case OpKind::kPull:
    case OpKind::kVersion:
    case OpKind::kAwaitSet: {
      wire::Pull pull{.want = WantOf(first.kind), .parts = {}, .values = first.compression.weights};
      for (const PartOpPtr& part : parts)
        pull.parts.push_back({part->ref, part->op->slot, part->op->slot == 0 ? part->round() : 0});
      message->body = std::move(pull);
      break;
    }
    case OpKind::kPullRows: {
      wire::PullRows pull;
      for (const PartOpPtr& part : parts) {
        pull.parts.push_back({part->ref, part->op->slot, part->round()});
        add_frame(*part);
      }
      message->body = std::move(pull);
      break;
    }
    case OpKind::kInit:
    case OpKind::kState:
    case OpKind::kRows:
    case OpKind::kSet: {
      wire::Store store{.purpose = PurposeOf(first.kind), .parts = {}};
      for (const PartOpPtr& part : parts) {
        store.parts.push_back({part->ref, part->op->slot, part->round()});
        add_frame(*part);
      }
      message->body = std::move(store);
      break;
    }
  }
}

}  // namespace sluice::worker
