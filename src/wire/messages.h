// Every message of the protocol as a plain struct. docs/design/protocol.md says which node sends which
// message, and when. Nothing here is thread-safe by itself; a message has one owner at a time.
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

// --- Joining ---

struct Register {
  Role role = Role::kWorker;
  std::string identity;         // names the node's place in the job across restarts; empty: none
  int32_t requested_rank = -1;  // -1: any
  std::string host;             // for messages to people alone
  uint32_t pid = 0;             // for messages to people alone
  uint32_t num_workers = 0;     // as configured at the node; must agree with the scheduler's
  uint32_t num_servers = 0;
  std::vector<std::string> shard_addresses;  // servers: one per key-owning thread; empty: none runs yet
  uint32_t server_threads = 0;               // servers: key-owning threads as configured; 0: not configured
  uint32_t default_server_threads = 0;       // servers: the number for this machine if none is configured
  uint32_t heartbeat_ms = 0;                 // the interval of the node's heartbeats; 0: unknown
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
  std::string missing;           // kWaiting: a text that lists the nodes that have not joined yet
  std::vector<NodeInfo> roster;  // kComplete: servers and workers, by role and rank
  uint32_t server_threads = 0;   // key-owning threads of each server; 0: not decided yet
  bool operator==(const Welcome&) const = default;
};

struct Heartbeat {
  bool asks_to_end = false;  // a worker was asked to end (SIGTERM); the scheduler notifies the other workers
  bool operator==(const Heartbeat&) const = default;
};
// The envelope carries the epoch.
struct HeartbeatAck {
  bool asked_to_end = false;  // whether a worker of the job was asked to end
  bool operator==(const HeartbeatAck&) const = default;
};
struct GetMembership {
  bool operator==(const GetMembership&) const = default;
};
struct Membership {
  std::vector<NodeInfo> roster;
  bool operator==(const Membership&) const = default;
};

// --- Keys ---

// The name of a key as programs write it: an integer or a string. One store never mixes the two.
using KeyName = std::variant<int64_t, std::string>;
std::string ToString(const KeyName& name);

struct KeySpec {
  KeyName name;
  DType dtype = DType::kFloat32;
  Shape shape;
  // The number of the store, which has key names of its own. A worker numbers its stores in the order it
  // makes them, which must be the same on all workers.
  uint32_t store = 0;
  std::optional<RowInit> rows = {};  // set for row-sparse keys: the initial value of their rows
  bool operator==(const KeySpec&) const = default;
};
std::string ToString(const KeySpec& spec);      // "w"; for stores other than 0 "w of store 1"
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
  int64_t part_elements = 0;  // each slice is cut into parts of at most this many elements
  bool operator==(const KeyEntry&) const = default;
};

struct DeclareKeys {
  SyncMode mode = SyncMode::kSync;
  std::vector<KeySpec> keys;
  // Describes a call whose keys do not fit one message: `keys` are those from number `first` on, of `total`
  // keys of the call. The scheduler collects them and answers each message with Ack; with the last one it
  // declares all keys of the call or none. A sender numbers its calls in ascending order. If `total` is 0,
  // these are all keys of the call, and KeyTable is the answer.
  struct Part {
    uint64_t call = 0, first = 0, total = 0;
    bool operator==(const Part&) const = default;
  } part = {};
  bool operator==(const DeclareKeys&) const = default;
};
struct KeyTable {
  std::vector<KeyEntry> entries;  // in the order of DeclareKeys::keys
  bool operator==(const KeyTable&) const = default;
};
struct AnnounceKeys {
  std::vector<KeyEntry> entries;
  bool operator==(const AnnounceKeys&) const = default;
};

// --- Data: worker and shard ---

// A list with one element per part of a message. Messages of a training step mostly have few parts.
template <typename T>
using PartList = InlineVector<T, 8>;
using Frames = PartList<Frame>;

struct PartRef {
  uint32_t key = 0;
  uint32_t part = 0;
  bool operator==(const PartRef&) const = default;
};

inline constexpr uint32_t kMostExponent = 64;  // a sum of 2^64 float16 numbers is still in float32's range

struct PushPart {
  PartRef ref;
  uint64_t round = 0;
  bool want_value = false;  // the answer is to bring the weight after this round
  bool operator==(const PushPart&) const = default;
};
// A push has one payload frame per part.
struct Push {
  uint64_t samples = 0;  // number of samples that the gradient sums over
  double divisor = 1;    // what the caller wants the summed gradient divided by
  PartList<PushPart> parts;
  Compression compression = Compression::kNone;  // encoding of all frames
  Compression values = Compression::kNone;       // encoding that the wanted values are to have
  // The receiver multiplies the elements by 2^exponent. It differs from 0 only for float16 keys that are not
  // compressed, and is at most kMostExponent.
  uint32_t exponent = 0;
  bool operator==(const Push&) const = default;
};

struct PullPart {
  PartRef ref;
  uint32_t slot = 0;  // 0: the weight; i: the optimiser's i-th state
  uint64_t min_version = 0;
  bool operator==(const PullPart&) const = default;
};
struct Pull {
  // kVersion and kSet ask for the version alone. kSet is answered once worker 0 has set the weight,
  // as the asking worker has (Store::Purpose::kWeight): in sync modes that of version min_version,
  // in async modes min_version times.
  enum class Want : uint8_t { kValue, kVersion, kSet };
  Want want = Want::kValue;
  PartList<PullPart> parts;
  Compression values = Compression::kNone;  // encoding that weights are to have
  bool operator==(const Pull&) const = default;
};

struct RowsPart {
  PartRef ref;
  uint32_t slot = 0;
  uint64_t min_version = 0;
  bool operator==(const RowsPart&) const = default;
};
// Has one payload frame of row ids per part, and is answered by Values with these rows.
struct PullRows {
  PartList<RowsPart> parts;
  bool operator==(const PullRows&) const = default;
};

// Asks for the ids of a part's rows, in the order the rows were made, from the row with number `first` on.
struct GetRowIds {
  PartRef ref;
  uint64_t first = 0;
  bool operator==(const GetRowIds&) const = default;
};
struct RowIds {
  uint64_t total = 0;  // number of rows that the part has
  std::vector<uint64_t> ids;
  bool operator==(const RowIds&) const = default;
};

struct ValuePart {
  PartRef ref;
  uint32_t slot = 0;
  uint64_t version = 0;
  bool operator==(const ValuePart&) const = default;
};
// Has one payload frame per part if has_data, and none otherwise.
struct Values {
  bool has_data = true;
  PartList<ValuePart> parts;
  Compression compression = Compression::kNone;  // encoding of all frames
  bool operator==(const Values&) const = default;
};

struct StorePart {
  PartRef ref;
  uint32_t slot = 0;
  uint64_t version = 0;  // kState: the version that the states belong to; kWeight: the weight's version
  bool operator==(const StorePart&) const = default;
};
// Has one payload frame per part, and is answered by Ack.
struct Store {
  // kRows: weights of a row-sparse key; frames with weights or states of such a key begin with the row ids
  // (kvstore/rows/row_frame.h). kWeight: the weight of a dense key, set outside of any round.
  enum class Purpose : uint8_t { kInit, kState, kRows, kWeight };
  Purpose purpose = Purpose::kInit;
  PartList<StorePart> parts;
  bool operator==(const Store&) const = default;
};

// --- Control ---

struct SetOptimizer {
  OptimizerConfig config;
  // By key id: the first round that the config governs. It is 1 for keys that are not named.
  std::map<uint32_t, uint64_t> first_rounds;
  uint32_t store = 0;  // the store whose keys the config governs
  bool operator==(const SetOptimizer&) const = default;
};

struct Barrier {
  enum class Group : uint8_t { kWorkers, kServers, kAll, kRanks };
  std::string id;  // the same for all members
  Group group = Group::kWorkers;
  std::vector<uint32_t> ranks;  // kRanks: worker ranks
  std::string text;             // BarrierReleased brings all members the text of the lowest worker
  bool operator==(const Barrier&) const = default;
};
struct StillWaiting {
  std::string id;
  std::string missing;  // a text: "worker 2, worker 5"
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
  // The state of each node at the end: alive, dead or finished. It comes in one message with the reason, so
  // that no node learns of a death alone and goes on without the dead node. Empty: unknown.
  std::vector<NodeInfo> roster = {};
  bool operator==(const Stop&) const = default;
};

// Answered with Ack once worker 0 has set an optimiser of that store on every server.
struct AwaitOptimizer {
  uint32_t store = 0;
  bool operator==(const AwaitOptimizer&) const = default;
};

// GetMemory and MemoryOffer pass between loops; machines do not see them. The loop that has connected asks
// the bound loop how to reach that one's shared memory (transport/shm).
struct GetMemory {
  bool operator==(const GetMemory&) const = default;
};
struct MemoryOffer {
  std::string rendezvous;  // name of a socket of the bound loop; empty: no memory is shared
  std::string token;       // the connecting loop sends it to that socket, once
  std::string why;         // why no memory is shared
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

using BodyVariant =
    std::variant<Register, Welcome, Heartbeat, HeartbeatAck, GetMembership, Membership, DeclareKeys, KeyTable,
                 AnnounceKeys, Push, Pull, Values, Store, SetOptimizer, Barrier, StillWaiting,
                 BarrierReleased, Leave, Stop, GetStats, Stats, Ack, ErrorReply, AwaitOptimizer, PullRows,
                 GetRowIds, RowIds, GetMemory, MemoryOffer>;
// A variant whose copies, moves and destruction are compiled in messages.cc alone: each handles all
// alternatives, which would take the compiler a second or two in every file that uses messages.
struct Body : BodyVariant {
  using BodyVariant::BodyVariant;
  Body();
  Body(const Body&);
  Body(Body&&) noexcept;
  Body& operator=(const Body&);
  Body& operator=(Body&&) noexcept;
  ~Body();
};
std::string_view BodyName(const Body& body);  // "Push"
std::string_view BodyName(size_t index);      // `index` of one of Body's alternatives

// --- Envelope ---

struct Sender {
  Role role = Role::kWorker;
  uint32_t rank = 0;  // meaningless before Welcome
  uint64_t incarnation = 0;
  bool operator==(const Sender&) const = default;
};

// A payload frame that stays in its sender's memory, where the receiver reads it.
struct LeasedFrame {
  uint32_t index = 0;  // among all payload frames of its message
  uint64_t lease = 0;  // the lease's number, counted by the sender for each receiver
  uint64_t segment = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  bool operator==(const LeasedFrame&) const = default;
};
using LeasedFrames = InlineVector<LeasedFrame, 8>;

struct Message {
  uint64_t job = 0;  // HashJobId(SLUICE_JOB_ID)
  Sender sender;
  uint64_t id = 0;           // the request's number; a repeated request keeps it
  uint64_t in_reply_to = 0;  // the answered request's id; 0: not a reply
  uint64_t trace_id = 0;
  uint64_t epoch = 0;
  Body body;
  Frames payload;
  // These two are used on the wire alone: a machine finds all frames in `payload`.
  LeasedFrames leased;
  PartList<uint32_t> packed;  // sizes of packed frames: wire/packing.h
};

uint64_t HashJobId(std::string_view job_id);  // FNV-1a, 64 bits

// Returns one line for PS_VERBOSE=2 and state dumps: "worker 1 -> Push id 7, 3 parts, round 2, 1.2 MiB".
std::string Describe(const Message& message);
uint64_t PayloadBytes(const Message& message);

}  // namespace sluice::wire
