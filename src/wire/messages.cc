// Names of messages and enums, and one-line descriptions of messages for logs (PS_VERBOSE=2),
// errors and state dumps. Pure functions without state, on any thread. BodyName's list must have
// the order of Body's alternatives.
#include "wire/messages.h"

#include <array>

#include "base/hash.h"
#include "base/strings.h"

namespace sluice::wire {
namespace {

// Returns a number with its noun: "3 parts", "1 key".
std::string Counted(size_t n, std::string_view noun) {
  return StrCat(n, " ", noun, n == 1 ? "" : "s");
}

// Summarises a body in a few words; kinds without a function of their own get an empty text.
struct Summary {
  std::string operator()(const Register& b) const {
    return StrCat(Name(b.role), " on ", b.host, " pid ", b.pid);
  }
  std::string operator()(const Welcome& b) const {
    return b.state == Welcome::State::kComplete
               ? StrCat("rank ", b.rank, ", complete, ", Counted(b.roster.size(), "node"))
               : StrCat("rank ", b.rank, ", missing ", b.missing);
  }
  std::string operator()(const Membership& b) const { return Counted(b.roster.size(), "node"); }
  std::string operator()(const DeclareKeys& b) const { return Counted(b.keys.size(), "key"); }
  std::string operator()(const KeyTable& b) const { return Counted(b.entries.size(), "key"); }
  std::string operator()(const AnnounceKeys& b) const { return Counted(b.entries.size(), "key"); }
  std::string operator()(const Push& b) const {
    if (b.parts.empty()) return "0 parts";
    return StrCat(Counted(b.parts.size(), "part"), ", round ", b.parts.front().round,
                  b.compression == Compression::kNone ? "" : ", ",
                  b.compression == Compression::kNone ? "" : Name(b.compression));
  }
  std::string operator()(const Pull& b) const { return Counted(b.parts.size(), "part"); }
  std::string operator()(const PullRows& b) const { return Counted(b.parts.size(), "part"); }
  std::string operator()(const RowIds& b) const { return Counted(b.ids.size(), "row"); }
  std::string operator()(const Values& b) const {
    if (b.parts.empty()) return "0 parts";
    return StrCat(Counted(b.parts.size(), "part"), ", version ", b.parts.front().version);
  }
  std::string operator()(const Store& b) const { return Counted(b.parts.size(), "part"); }
  std::string operator()(const SetOptimizer& b) const { return std::string(Name(b.config.kind)); }
  std::string operator()(const Barrier& b) const { return StrCat("'", b.id, "'"); }
  std::string operator()(const StillWaiting& b) const { return StrCat("'", b.id, "', missing ", b.missing); }
  std::string operator()(const Leave& b) const {
    return b.outcome == Leave::Outcome::kFinished ? "finished" : StrCat("failed: ", b.message);
  }
  std::string operator()(const Stop& b) const {
    return b.reason == Stop::Reason::kFinished ? "finished" : StrCat("failed: ", b.message);
  }
  std::string operator()(const Stats& b) const { return Counted(b.counters.size(), "counter"); }
  std::string operator()(const ErrorReply& b) const { return StrCat(ErrorCodeName(b.code), ": ", b.message); }
  template <typename Empty>
  std::string operator()(const Empty&) const {
    return {};
  }
};

}  // namespace

std::string_view Name(Role role) {
  switch (role) {
    case Role::kScheduler:
      return "scheduler";
    case Role::kServer:
      return "server";
    case Role::kWorker:
      return "worker";
  }
  return "unknown";
}

std::string_view Name(SyncMode mode) {
  return mode == SyncMode::kSync ? "sync" : "async";
}

std::string ToString(const KeyName& name) {
  if (const auto* number = std::get_if<int64_t>(&name)) return std::to_string(*number);
  return std::get<std::string>(name);
}

std::string ToString(const KeySpec& spec) {
  return spec.store == 0 ? ToString(spec.name) : StrCat(ToString(spec.name), " of store ", spec.store);
}

std::string DescribeType(const KeySpec& spec) {
  std::string type = StrCat(Name(spec.dtype), " ", spec.shape.ToString());
  if (!spec.rows) return type;
  const RowInit& init = *spec.rows;
  std::string sparse = StrCat("row-sparse ", type, " of ");
  switch (init.fill) {
    case RowFill::kConstant:
      return StrCat(sparse, init.center);
    case RowFill::kUniform:
      return StrCat(sparse, "uniform ", init.center - init.width, " to ", init.center + init.width, ", seed ",
                    init.seed);
    case RowFill::kNormal:
      return StrCat(sparse, "normal ", init.center, " by ", init.width, ", seed ", init.seed);
  }
  return sparse;
}

Body::Body() = default;
Body::Body(const Body&) = default;
Body::Body(Body&&) noexcept = default;
Body& Body::operator=(const Body&) = default;
Body& Body::operator=(Body&&) noexcept = default;
Body::~Body() = default;

std::string_view BodyName(size_t index) {
  static constexpr std::array<std::string_view, std::variant_size_v<BodyVariant>> kNames = {
      "Register",        "Welcome",      "Heartbeat",   "HeartbeatAck",
      "GetMembership",   "Membership",   "DeclareKeys", "KeyTable",
      "AnnounceKeys",    "Push",         "Pull",        "Values",
      "Store",           "SetOptimizer", "Barrier",     "StillWaiting",
      "BarrierReleased", "Leave",        "Stop",        "GetStats",
      "Stats",           "Ack",          "ErrorReply",  "AwaitOptimizer",
      "PullRows",        "GetRowIds",    "RowIds",      "GetMemory",
      "MemoryOffer"};
  return kNames[index];
}

std::string_view BodyName(const Body& body) {
  return BodyName(body.index());
}

uint64_t HashJobId(std::string_view job_id) {
  return Fnv1a(job_id);
}

uint64_t PayloadBytes(const Message& message) {
  uint64_t bytes = 0;
  for (const Frame& frame : message.payload) bytes += frame.size();
  return bytes;
}

std::string Describe(const Message& message) {
  std::string text = StrCat(Name(message.sender.role), " ", message.sender.rank, " -> ",
                            BodyName(message.body), " id ", message.id);
  if (message.in_reply_to != 0) text += StrCat(" re ", message.in_reply_to);
  if (const std::string summary = std::visit(Summary{}, message.body); !summary.empty()) {
    text += ", " + summary;
  }
  if (!message.payload.empty()) text += ", " + HumanBytes(PayloadBytes(message));
  return text;
}

}  // namespace sluice::wire
