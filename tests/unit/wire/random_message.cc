// Makes messages of every body with random fields, from a seed, for the tests of the codec and the fuzzers.
#include "unit/wire/random_message.h"

#include <cmath>
#include <limits>

namespace sluice::wire::testing {

uint64_t RandomMessages::Number() {
  switch (rng_.Below(4)) {
    case 0:
      return 0;
    case 1:
      return std::numeric_limits<uint64_t>::max();
    default:
      return rng_.Next() >> rng_.Below(64);
  }
}

std::string RandomMessages::Text() {
  std::string text(Size(), '\0');
  for (char& c : text) c = static_cast<char>(rng_.Below(256));  // not only UTF-8
  return text;
}

double RandomMessages::Finite() {
  const double magnitudes[] = {1,
                               -1,
                               std::numeric_limits<double>::denorm_min(),
                               std::numeric_limits<double>::max(),
                               0.1,
                               rng_.Normal() + 100};
  return magnitudes[rng_.Below(std::size(magnitudes))];
}

NodeInfo RandomMessages::Node() {
  return {Enum(Role::kWorker),        Number32(), Number(), Enum(NodeState::kFinished), Text(), Number32(),
          List(&RandomMessages::Text)};
}

KeySpec RandomMessages::Spec() {
  KeySpec spec;
  if (rng_.Chance(0.5)) {
    spec.name = static_cast<int64_t>(Number());
  } else {
    spec.name = Text();
  }
  spec.dtype = Enum(DType::kUInt8);
  std::vector<int64_t> dims(rng_.Below(Shape::kMaxAxes + 1));
  for (int64_t& dim : dims) dim = static_cast<int64_t>(rng_.Below(100));
  spec.shape = Shape(dims);
  spec.store = StoreNumber();
  const RowInit rows{Enum(RowFill::kNormal), Finite(), std::abs(Finite()), Number()};
  if (InvalidReason(rows, spec.shape, spec.dtype).empty()) spec.rows = rows;
  return spec;
}

KeyEntry RandomMessages::Entry() {
  KeyEntry entry;
  entry.id = Number32();
  entry.spec = Spec();
  entry.mode = Enum(SyncMode::kAsync);
  entry.slices.resize(Size());
  for (Slice& slice : entry.slices) {
    const auto size = static_cast<uint64_t>(entry.spec.shape.size());
    slice.shard = Number32();
    slice.offset = static_cast<int64_t>(rng_.Below(size + 1));
    slice.length = static_cast<int64_t>(rng_.Below(size - static_cast<uint64_t>(slice.offset) + 1));
  }
  entry.part_elements = static_cast<int64_t>(Number() >> 1);
  return entry;
}

OptimizerConfig RandomMessages::Optimizer() {
  OptimizerConfig config;
  config.kind = Enum(OptimizerKindOf(OptimizerNames().back()).value());
  for (double* field :
       {&config.learning_rate, &config.momentum, &config.epsilon, &config.wd, &config.clip_gradient,
        &config.rescale_grad, &config.beta1, &config.beta2, &config.rho, &config.lambda1, &config.beta,
        &config.lower_bound, &config.upper_bound, &config.wd_lh, &config.schedule.factor,
        &config.schedule.stop_factor_lr, &config.schedule.final_lr, &config.schedule.power,
        &config.schedule.warmup_begin_lr}) {
    *field = Finite();
  }
  config.schedule.kind = Enum(LrScheduleKind::kCosine);
  config.schedule.warmup_mode = Enum(WarmupMode::kConstant);
  config.schedule.step = static_cast<int64_t>(Number());
  config.schedule.max_update = static_cast<int64_t>(Number());
  config.schedule.warmup_steps = static_cast<int64_t>(Number());
  config.schedule.steps.resize(Size());
  for (int64_t& step : config.schedule.steps) step = static_cast<int64_t>(Number());
  config.normalize_by_samples = rng_.Chance(0.5);
  config.centered = rng_.Chance(0.5);
  config.multi_precision = rng_.Chance(0.5);
  for (size_t n = Size(); n > 0; --n) config.multipliers[Text()] = {Finite(), Finite()};
  return config;
}

std::map<uint32_t, uint64_t> RandomMessages::FirstRounds() {
  std::map<uint32_t, uint64_t> rounds;
  for (size_t n = Size(); n > 0; --n) {
    const uint32_t key = Number32();
    const uint64_t round = Number();
    for (uint32_t i = 0; i < 3 && key <= UINT32_MAX - i; ++i)
      rounds[key + i] = rng_.Chance(0.8) ? round : Number();
  }
  return rounds;
}

Frame RandomMessages::Payload() {
  std::string bytes(Size(), '\0');
  for (char& c : bytes) c = static_cast<char>(rng_.Next());
  return Frame::Copy(AsBytes(bytes));
}

// The cases of this and the next two functions are in Body's order.
Body RandomMessages::MakeBody(size_t index) {
  switch (index) {
    case 0:
      return Register{Enum(Role::kWorker),
                      Text(),
                      static_cast<int32_t>(rng_.Below(1u << 31)) - 1,
                      Text(),
                      Number32(),
                      Number32(),
                      Number32(),
                      List(&RandomMessages::Text),
                      Number32(),
                      Number32(),
                      Number32()};
    case 1:
      return Welcome{Enum(Welcome::State::kComplete), Number32(), Text(), List(&RandomMessages::Node),
                     Number32()};
    case 2:
      return Heartbeat{rng_.Chance(0.5)};
    case 3:
      return HeartbeatAck{rng_.Chance(0.5)};
    case 4:
      return GetMembership{};
    case 5:
      return Membership{List(&RandomMessages::Node)};
    case 6:
      return DeclareKeys{Enum(SyncMode::kAsync), List(&RandomMessages::Spec), {Number(), Number(), Number()}};
    case 7:
      return KeyTable{List(&RandomMessages::Entry)};
    case 8:
      return AnnounceKeys{List(&RandomMessages::Entry)};
    default:
      return MakePushOrLater(index);
  }
}

Body RandomMessages::MakePushOrLater(size_t index) {
  switch (index) {
    case 9:
      return Push{Number(),
                  Finite(),
                  Parts(&RandomMessages::MakePushPart),
                  Enum(Compression::kTopK),
                  Enum(Compression::kTopK),
                  Number32()};
    case 10:
      return Pull{Enum(Pull::Want::kSet), Parts(&RandomMessages::MakePullPart), Enum(Compression::kTopK)};
    case 11:
      return Values{rng_.Chance(0.5), Parts(&RandomMessages::MakeValuePart), Enum(Compression::kTopK)};
    case 12:
      return Store{Enum(Store::Purpose::kWeight), Parts(&RandomMessages::MakeStorePart)};
    case 13:
      return SetOptimizer{Optimizer(), FirstRounds(), StoreNumber()};
    default:
      return MakeBarrierOrLater(index);
  }
}

Body RandomMessages::MakeBarrierOrLater(size_t index) {
  switch (index) {
    case 14:
      return Barrier{Text(), Enum(Barrier::Group::kRanks), List(&RandomMessages::Number32), Text()};
    case 15:
      return StillWaiting{Text(), Text()};
    case 16:
      return BarrierReleased{Text()};
    case 17:
      return Leave{Enum(Leave::Outcome::kFailed), Text()};
    case 18:
      return Stop{Enum(Stop::Reason::kFailed), Text(), List(&RandomMessages::Node)};
    case 19:
      return GetStats{};
    case 20: {
      Stats stats;
      for (size_t n = Size(); n > 0; --n) stats.counters[Text()] = Number();
      return stats;
    }
    case 21:
      return Ack{};
    case 22:
      return ErrorReply{Enum(ErrorCode::kCancelled), Text()};
    case 23:
      return AwaitOptimizer{StoreNumber()};
    case 24:
      return PullRows{Parts(&RandomMessages::MakeRowsPart)};
    case 25:
      return GetRowIds{Ref(), Number()};
    case 26:
      return RowIds{Number(), List(&RandomMessages::Number)};
    case 27:
      return GetMemory{};
    default:
      return MemoryOffer{Text(), Text(), Text()};
  }
}

Message RandomMessages::Make(size_t index) {
  Message message;
  message.job = Number();
  message.sender = {Enum(Role::kWorker), Number32(), Number()};
  message.id = Number();
  message.in_reply_to = Number();
  message.trace_id = Number();
  message.epoch = Number();
  message.body = MakeBody(index);
  size_t frames = 0;
  if (const auto* push = std::get_if<Push>(&message.body)) frames = push->parts.size();
  if (const auto* store = std::get_if<Store>(&message.body)) frames = store->parts.size();
  if (const auto* rows = std::get_if<PullRows>(&message.body)) frames = rows->parts.size();
  if (const auto* values = std::get_if<Values>(&message.body))
    frames = values->has_data ? values->parts.size() : 0;
  for (size_t i = 0; i < frames; ++i) message.payload.push_back(Payload());
  return message;
}

}  // namespace sluice::wire::testing
