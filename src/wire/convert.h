// Converts between the structs of messages.h and protobuf's generated classes. Internal to wire/.
#pragma once

#include <cmath>
#include <string>
#include <utility>

#include "wire/codec.h"

namespace sluice::pb {
class AnnounceKeys;
class Barrier;
class StillWaiting;
class BarrierReleased;
class DeclareKeys;
class Envelope;
class ErrorReply;
class GetMembership;
class GetMemory;
class AwaitOptimizer;
class GetStats;
class Heartbeat;
class HeartbeatAck;
class KeyTable;
class Leave;
class Membership;
class MemoryOffer;
class Pull;
class PullRows;
class GetRowIds;
class RowIds;
class Push;
class Register;
class SetOptimizer;
class Stats;
class Stop;
class Store;
class Values;
class Welcome;
class Ack;
}  // namespace sluice::pb

namespace sluice::wire {

// Checks the fields of a received message and keeps the first reason to refuse it. Its methods return
// false when they refuse something.
class Checker {
 public:
  explicit Checker(const Limits& limits) : limits_(limits) {}
  const Limits& limits() const { return limits_; }
  bool ok() const { return why_.empty(); }
  const std::string& why() const { return why_; }

  template <typename... Args>
  bool Reject(const Args&... args) {
    if (why_.empty()) why_ = StrCat(args...);
    return false;
  }
  bool Count(size_t count, size_t limit, const char* what) {
    return count <= limit || Reject(count, " ", what, "; at most ", limit, " are accepted");
  }
  bool StoreNumber(uint32_t store, uint32_t* out) {
    *out = store;
    return store < limits_.max_stores ||
           Reject("store number ", store, "; a worker has at most ", limits_.max_stores, " stores");
  }
  // Copies a text, which arrives as bytes and need not be UTF-8, if it is not too long.
  bool Text(const std::string& text, const char* what, std::string* out) {
    if (text.size() > limits_.max_text_bytes) {
      return Reject(what, " of ", text.size(), " bytes; at most ", limits_.max_text_bytes, " are accepted");
    }
    *out = text;
    return true;
  }
  bool Finite(double value, const char* what) { return std::isfinite(value) || Reject(what, " is ", value); }
  // Converts an enum: on the wire 0 means unspecified, and enumerator n of the struct's enum is n + 1.
  template <typename E>
  bool Enum(int on_wire, E last, const char* what, E* out) {
    if (on_wire < 1 || on_wire > static_cast<int>(last) + 1) return Reject(what, " is ", on_wire);
    *out = static_cast<E>(on_wire - 1);
    return true;
  }

 private:
  const Limits& limits_;
  std::string why_;
};

// The inverse of Checker::Enum.
template <typename P, typename E>
P EnumToWire(E value) {
  return static_cast<P>(static_cast<int>(value) + 1);
}

// The slot and the version of a part, whatever its kind calls them.
inline uint32_t SlotOf(const PushPart&) {
  return 0;
}
inline uint32_t SlotOf(const auto& part) {
  return part.slot;
}
inline uint64_t VersionOf(const PushPart& part) {
  return part.round;
}
inline uint64_t VersionOf(const PullPart& part) {
  return part.min_version;
}
inline uint64_t VersionOf(const RowsPart& part) {
  return part.min_version;
}
inline uint64_t VersionOf(const auto& part) {
  return part.version;
}

// For each kind of body: ToWire fills a generated message that is empty before; FromWire converts and checks
// one, and returns false once `checker` has refused something.
#define SLUICE_WIRE_BODY(T)             \
  void ToWire(const T& in, pb::T* out); \
  bool FromWire(const pb::T& in, Checker& checker, T* out)
SLUICE_WIRE_BODY(Register);
SLUICE_WIRE_BODY(Welcome);
SLUICE_WIRE_BODY(Heartbeat);
SLUICE_WIRE_BODY(HeartbeatAck);
SLUICE_WIRE_BODY(GetMembership);
SLUICE_WIRE_BODY(Membership);
SLUICE_WIRE_BODY(DeclareKeys);
SLUICE_WIRE_BODY(KeyTable);
SLUICE_WIRE_BODY(AnnounceKeys);
SLUICE_WIRE_BODY(Push);
SLUICE_WIRE_BODY(Pull);
SLUICE_WIRE_BODY(PullRows);
SLUICE_WIRE_BODY(GetRowIds);
SLUICE_WIRE_BODY(RowIds);
SLUICE_WIRE_BODY(Values);
SLUICE_WIRE_BODY(Store);
SLUICE_WIRE_BODY(SetOptimizer);
SLUICE_WIRE_BODY(Barrier);
SLUICE_WIRE_BODY(StillWaiting);
SLUICE_WIRE_BODY(BarrierReleased);
SLUICE_WIRE_BODY(Leave);
SLUICE_WIRE_BODY(Stop);
SLUICE_WIRE_BODY(AwaitOptimizer);
SLUICE_WIRE_BODY(GetMemory);
SLUICE_WIRE_BODY(MemoryOffer);
SLUICE_WIRE_BODY(GetStats);
SLUICE_WIRE_BODY(Stats);
SLUICE_WIRE_BODY(Ack);
SLUICE_WIRE_BODY(ErrorReply);
#undef SLUICE_WIRE_BODY

// The same for a body of any kind, in the envelope's field for that kind.
void BodyToWire(const Body& in, pb::Envelope* out);
bool BodyFromWire(const pb::Envelope& in, Checker& checker, Body* out);

}  // namespace sluice::wire
