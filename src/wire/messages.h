// Every message of the protocol as a plain typed struct. docs/design/protocol.md says who sends which, and
// when.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "base/inline_vector.h"
#include "sluice/compression.h"
#include "sluice/dtype.h"
#include "sluice/error.h"
#include "sluice/optimizer.h"
#include "sluice/row_init.h"
#include "sluice/shape.h"

namespace sluice::wire {

inline constexpr uint32_t kProtocolVersion = 1;

enum class Role : uint8_t { kScheduler, kServer, kWorker };
enum class NodeState : uint8_t { kAlive, kDead, kFinished };
enum class SyncMode : uint8_t { kSync, kAsync };

std::string_view Name(Role role);      // "worker"
std::string_view Name(SyncMode mode);  // "sync"

// --- Joining
// -------------------------------------------------------------------------------------------------------

struct Register {
  Role role = Role::kWorker;
  std::string identity;         // names this place in the job across restarts; empty: none
  int32_t requested_rank = -1;  // -1: any
  std::string host;             // for people
  uint32_t pid = 0;             // for people
  uint32_t num_workers = 0;     // what the node believes; must agree with the scheduler's
  uint32_t num_servers = 0;
  std::vector<std::string> shard_addresses;  // servers: one per key-owning thread; empty: none runs yet
  uint32_t server_threads = 0;               // servers: as somebody has set it; 0: nobody has
  uint32_t offered_server_threads = 0;       // servers: what they would take by themselves
  uint32_t heartbeat_ms = 0;                 // the node's interval; 0: not told
  bool operator==(const Register&) const = default;
};

struct NodeInfo {
  Role role = Role::kWorker;
  uint32_t rank = 0;
  uint64_t incarnation = 0;
  NodeState state = NodeState::kAlive;
  std::string host;
  uint32_t pid = 0;
  std::vector<std::string> shard_addresses;
  bool operator==(const NodeInfo&) const = default;
};

struct Welcome {
  enum class State : uint8_t { kWaiting, kComplete };
  State state = State::kWaiting;
  uint32_t rank = 0;
  std::string missing;           // kWaiting: who has not joined yet, in words
  std::vector<NodeInfo> roster;  // kComplete: servers and workers, by role and rank
  uint32_t server_threads = 0;   // key-owning threads of every server; 0: not decided yet
  bool operator==(const Welcome&) const = default;
};

struct Heartbeat {
  bool asks_to_end = false;  // of a worker: it was asked to end (SIGTERM), and the others should hear it
  bool operator==(const Heartbeat&) const = default;
};
struct HeartbeatAck {
  bool asked_to_end = false;  // a worker of the job was
  bool operator==(const HeartbeatAck&) const = default;
};  // the envelope carries the epoch
struct GetMembership {
  bool operator==(const GetMembership&) const = default;
};
struct Membership {
  std::vector<NodeInfo> roster;
  bool operator==(const Membership&) const = default;
};

// --- Keys
// ----------------------------------------------------------------------------------------------------------

// A key as users write it: an integer or a string, never mixed within a store.
using KeyName = std::variant<int64_t, std::string>;
std::string ToString(const KeyName& name);

struct KeySpec {
  KeyName name;
  DType dtype = DType::kFloat32;
  Shape shape;
  uint32_t store = 0;  // among those that a worker makes, in one order on all; each has names of its own
  std::optional<RowInit> rows = {};  // of row-sparse keys alone
  bool operator==(const KeySpec&) const = default;
};
std::string ToString(const KeySpec& spec);      // "w", and of later stores "w of store 1"
std::string DescribeType(const KeySpec& spec);  // "float32 [10, 4]", "row-sparse float32 [10, 4] of 0"

struct Slice {
  uint32_t shard = 0;
  int64_t offset = 0;  // elements
  int64_t length = 0;
  bool operator==(const Slice&) const = default;
};

struct KeyEntry {
  uint32_t id = 0;
  KeySpec spec;
  SyncMode mode = SyncMode::kSync;
  std::vector<Slice> slices;  // in element order, without gaps
  int64_t part_elements = 0;  // slices are cut into parts of at most this many elements
  bool operator==(const KeyEntry&) const = default;
};

struct DeclareKeys {
  SyncMode mode = SyncMode::kSync;
  std::vector<KeySpec> keys;
  // Where one message does not hold all keys of a call: keys `first` and following of the `total` that it
  // has. The scheduler keeps them until it has all, and takes all or none; Ack says that it has these. Calls
  // of a sender have ascending numbers. total 0: these are all keys, and KeyTable answers.
  struct Part {
    uint64_t call = 0, first = 0, total = 0;
    bool operator==(const Part&) const = default;
  } part = {};
  bool operator==(const DeclareKeys&) const = default;
};
struct KeyTable {
  std::vector<KeyEntry> entries;  // in the order declared
  bool operator==(const KeyTable&) const = default;
};
struct AnnounceKeys {
  std::vector<KeyEntry> entries;
  bool operator==(const AnnounceKeys&) const = default;
};

// --- Data: worker and shard
// ----------------------------------------------------------------------------------------

// What there is one of per part: a message of a training step mostly has few.
template <typename T>
using PartList = InlineVector<T, 8>;
using Frames = PartList<Frame>;

struct PartRef {
  uint32_t key = 0;
  uint32_t part = 0;
  bool operator==(const PartRef&) const = default;
};

inline constexpr uint32_t kMostExponent = 64;  // sums of 2^64 float16 numbers are float32 numbers

struct PushPart {
  PartRef ref;
  uint64_t round = 0;
  bool want_value = false;  // answer with the weight after this round
  bool operator==(const PushPart&) const = default;
};
struct Push {            // one payload frame per part
  uint64_t samples = 0;  // how many samples the gradient sums over
  double divisor = 1;    // what the caller wants the summed gradient divided by
  PartList<PushPart> parts;
  Compression compression = Compression::kNone;  // of all frames
  Compression values = Compression::kNone;       // how the values wanted are to come
  // Elements are to be multiplied by 2^exponent: of float16 keys, where not compressed; at most
  // kMostExponent.
  uint32_t exponent = 0;
  bool operator==(const Push&) const = default;
};

struct PullPart {
  PartRef ref;
  uint32_t slot = 0;  // 0: weight; i: the optimiser's i-th state
  uint64_t min_version = 0;
  bool operator==(const PullPart&) const = default;
};
struct Pull {
  // kSet: the version alone, once worker 0 has set the weight as well (Store::Purpose::kWeight), in sync
  // modes that of version min_version, in async modes min_version times.
  enum class Want : uint8_t { kValue, kVersion, kSet };
  Want want = Want::kValue;
  PartList<PullPart> parts;
  Compression values = Compression::kNone;  // how weights are to come
  bool operator==(const Pull&) const = default;
};

struct RowsPart {
  PartRef ref;
  uint32_t slot = 0;
  uint64_t min_version = 0;
  bool operator==(const RowsPart&) const = default;
};
struct PullRows {  // one payload frame of ids per part; answered by Values with these rows
  PartList<RowsPart> parts;
  bool operator==(const PullRows&) const = default;
};

struct GetRowIds {  // which rows a part has: those from its `first` on, in the order they were made
  PartRef ref;
  uint64_t first = 0;
  bool operator==(const GetRowIds&) const = default;
};
struct RowIds {
  uint64_t total = 0;  // of the part
  std::vector<uint64_t> ids;
  bool operator==(const RowIds&) const = default;
};

struct ValuePart {
  PartRef ref;
  uint32_t slot = 0;
  uint64_t version = 0;
  bool operator==(const ValuePart&) const = default;
};
struct Values {  // one payload frame per part when has_data, none otherwise
  bool has_data = true;
  PartList<ValuePart> parts;
  Compression compression = Compression::kNone;  // of all frames
  bool operator==(const Values&) const = default;
};

struct StorePart {
  PartRef ref;
  uint32_t slot = 0;
  uint64_t version = 0;  // kState: the version that the states belong to; kWeight: that of the weight
  bool operator==(const StorePart&) const = default;
};
struct Store {  // one payload frame per part; answered by Ack
  // kRows: weights of a row-sparse key. Its states and weights come with their ids (kvstore/rows/frame.h).
  // kWeight: the weight of a dense key, in no round.
  enum class Purpose : uint8_t { kInit, kState, kRows, kWeight };
  Purpose purpose = Purpose::kInit;
  PartList<StorePart> parts;
  bool operator==(const Store&) const = default;
};

// --- Control
// -------------------------------------------------------------------------------------------------------

struct SetOptimizer {
  OptimizerConfig config;
  std::map<uint32_t, uint64_t>
      first_rounds;    // by key id: the first round that the config governs; keys not named: 1
  uint32_t store = 0;  // whose keys it governs
  bool operator==(const SetOptimizer&) const = default;
};

struct Barrier {
  enum class Group : uint8_t { kWorkers, kServers, kAll, kRanks };
  std::string id;  // members must agree on it
  Group group = Group::kWorkers;
  std::vector<uint32_t> ranks;  // kRanks: worker ranks
  std::string text;             // that of the lowest worker comes back to all
  bool operator==(const Barrier&) const = default;
};
struct StillWaiting {
  std::string id;
  std::string missing;  // in words: "worker 2, worker 5"
  bool operator==(const StillWaiting&) const = default;
};
struct BarrierReleased {
  std::string text;
  bool operator==(const BarrierReleased&) const = default;
};

struct Leave {
  enum class Outcome : uint8_t { kFinished, kFailed };
  Outcome outcome = Outcome::kFinished;
  std::string message;
  bool operator==(const Leave&) const = default;
};
struct Stop {
  enum class Reason : uint8_t { kFinished, kFailed };
  Reason reason = Reason::kFinished;
  std::string message;
  // Who is alive, dead or finished at the end: with the reason in one message, so that nobody hears of a
  // death and goes on without the dead. Empty: not told.
  std::vector<NodeInfo> roster = {};
  bool operator==(const Stop&) const = default;
};

struct AwaitOptimizer {  // answered with Ack once worker 0 has set one of that store on every server
  uint32_t store = 0;
  bool operator==(const AwaitOptimizer&) const = default;
};

// Between loops, not machines: whoever has connected asks for the way to the other's memory (transport/shm).
struct GetMemory {
  bool operator==(const GetMemory&) const = default;
};
struct MemoryOffer {
  std::string rendezvous;  // empty: nothing is shared
  std::string token;       // to be shown there, once
  std::string why;         // why nothing is shared
  bool operator==(const MemoryOffer&) const = default;
};

struct GetStats {
  bool operator==(const GetStats&) const = default;
};
using Counters = std::map<std::string, uint64_t>;
struct Stats {
  Counters counters;
  bool operator==(const Stats&) const = default;
};

struct Ack {
  bool operator==(const Ack&) const = default;
};
struct ErrorReply {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string message;
  bool operator==(const ErrorReply&) const = default;
};

using Body = std::variant<Register, Welcome, Heartbeat, HeartbeatAck, GetMembership, Membership, DeclareKeys,
                          KeyTable, AnnounceKeys, Push, Pull, Values, Store, SetOptimizer, Barrier,
                          StillWaiting, BarrierReleased, Leave, Stop, GetStats, Stats, Ack, ErrorReply,
                          AwaitOptimizer, PullRows, GetRowIds, RowIds, GetMemory, MemoryOffer>;
std::string_view BodyName(const Body& body);  // "Push"
std::string_view BodyName(size_t index);      // of Body's alternatives

// --- Envelope
// ------------------------------------------------------------------------------------------------------

struct Sender {
  Role role = Role::kWorker;
  uint32_t rank = 0;  // meaningless before Welcome
  uint64_t incarnation = 0;
  bool operator==(const Sender&) const = default;
};

// A payload frame that stays in its sender's memory, for the receiver to read there.
struct LeasedFrame {
  uint32_t index = 0;  // among all payload frames of its message
  uint64_t lease = 0;  // counted by who lends, for each receiver
  uint64_t segment = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  bool operator==(const LeasedFrame&) const = default;
};
using LeasedFrames = InlineVector<LeasedFrame, 8>;

struct Message {
  uint64_t job = 0;  // HashJobId(SLUICE_JOB_ID)
  Sender sender;
  uint64_t id = 0;           // of this request; a repeat keeps it
  uint64_t in_reply_to = 0;  // 0: not a reply
  uint64_t trace_id = 0;
  uint64_t epoch = 0;
  Body body;
  Frames payload;
  // On the wire alone: a machine sees all frames in `payload`.
  LeasedFrames leased;
  PartList<uint32_t> packed;  // sizes: wire/packing.h
};

uint64_t HashJobId(std::string_view job_id);  // FNV-1a, 64 bits

// "worker 1 -> Push id 7, 3 parts, 1.2 MiB": one line for PS_VERBOSE=2 and state dumps.
std::string Describe(const Message& message);
uint64_t PayloadBytes(const Message& message);

}  // namespace sluice::wire
