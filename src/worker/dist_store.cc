// DistStore: Init, Push, Pull and PushPull of dense keys, and how operations are issued.
//
// Called by the program's threads. A call on keys holds mutex_ and returns as soon as its operations are
// issued: each becomes a read of the pushed array and a write of the pulled one, so later uses of the
// arrays wait. Operations on one key reach the client in the order of the calls, even when the arrays of a
// later one are ready first (KeyState::issued). An error is thrown by the next call on the store
// (outstanding_) and by uses of the array.
#include "worker/dist_store.h"

#include <algorithm>

#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/access.h"
#include "tensor/origin.h"

namespace sluice::worker {
namespace {

// How long a wait continues after the client's own deadline, whose error names what was waited for.
constexpr std::chrono::seconds kGrace{5};

bool OnHost(const NDArray& array) {
  return array.context().kind != DeviceKind::kGpu;
}

std::vector<size_t> PartLengths(const wire::KeyEntry& entry) {
  std::vector<size_t> lengths;
  for (const plan::Part& part : plan::PartsOf(entry)) lengths.push_back(static_cast<size_t>(part.length));
  return lengths;
}

// Lets a thread that waits for a value drive the client's loop and deliver the value itself, so that
// no other thread has to wake first.
class DrivenLoop final : public Event::LoopDriver {
 public:
  explicit DrivenLoop(std::shared_ptr<transport::Loop> loop) : loop_(std::move(loop)) {}
  void DriveUntil(const std::function<bool()>& done, Time deadline) override {
    loop_->DriveUntil(done, deadline);
  }

 private:
  const std::shared_ptr<transport::Loop> loop_;
};

AdoptionBudget::Amount RoomIn(uint64_t shards) {
  return {std::min(kMostAdoptedParts * shards, kMostMappedParts), kMostAdoptedBytes * shards};
}

}  // namespace

DistStore::DistStore(Options options, std::shared_ptr<Client> client, std::shared_ptr<transport::Loop> loop,
                     std::unique_ptr<collective::Reducer> reducer)
    : options_(std::move(options)),
      client_{std::move(client), std::move(loop)},
      loop_driver_(std::make_shared<DrivenLoop>(client_.loop)),
      records_(std::make_shared<PoolAllocator>(kKeptRecords)),
      sent_(std::make_shared<PoolAllocator>(kKeptRecords, options_.memory)),
      rank_(static_cast<int>(client_.client->rank())),
      timeout_(Bounded(options_.timeout)),
      reducer_(std::move(reducer)),
      adoption_budget_(RoomIn(client_.client->num_shards())) {}

void DistStore::SetTimeout(std::chrono::milliseconds timeout) {
  kvstore::RequireTimeout(timeout);
  timeout_ = Bounded(timeout);
}

Duration DistStore::Timeout(std::chrono::milliseconds given) const {
  return given == kDefaultTimeout ? timeout_.load() : Bounded(given);
}

Event DistStore::Ask(const std::string& what, Call call) {
  Event done = Event::Make(what, loop_driver_);
  client_.Submit(std::move(call), done, true);
  return done;
}

void DistStore::Await(const std::string& what, Duration timeout, Call call) {
  WaitFor({Ask(what, std::move(call))}, timeout);
}

void DistStore::WaitFor(const std::vector<Event>& asked, Duration timeout) {
  for (const Event& event : asked) event.Wait(timeout + kGrace);
}

DistStore::CallName DistStore::NameOf(const std::string& call) {
  return {call, call + " and others"};
}

DistStore::KeyState& DistStore::Find(const std::string& what, const Key& key) {
  const auto it = keys_.find(key);
  if (it == keys_.end()) {
    throw Error(
        ErrorCode::kFailedPrecondition,
        StrCat(what, " of key ", ToString(key), ": the key has not been initialised; call Init first"));
  }
  return it->second;
}

DistStore::Found DistStore::FindAll(const std::string& what, const kvstore::Entries& entries) {
  Found states(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    states[i] = &Find(what, entries[i].key);
    kvstore::RequireFit(what, entries[i].key, states[i]->shape, entries[i].arrays);
  }
  return states;
}

void DistStore::Init(const std::vector<Key>& keys, const std::vector<NDArray>& values) {
  outstanding_.Check();
  kvstore::RequireValues(keys, values);
  std::vector<Values> lists;
  for (const NDArray& value : values) lists.push_back({value});
  const auto entries = kvstore::GroupByKey("Init", keys, lists);
  std::vector<InitArgs> args;
  for (const auto& entry : entries) {
    kvstore::RequireName(entry.key);
    if (entry.arrays.size() > 1)
      throw Error(ErrorCode::kAlreadyExists, StrCat("Init: key ", ToString(entry.key), " is named twice"));
    const NDArray& value = entry.arrays.front();
    const NDArray on_host = OnHost(value) ? value : value.AsInContext(cpu_pinned(0));
    on_host.WaitToRead();
    // The array is read in place, possibly after Init has returned, and its next writer
    // waits until the frame is released.
    const Event read = Event::Make("Init of key " + ToString(entry.key), nullptr, records_);
    args.push_back(
        {{entry.key, on_host.dtype(), on_host.shape(), options_.number}, HostFrame(on_host, read, records_)});
    AddReader(on_host, read);
  }
  Declare(args);
}

void DistStore::Declare(const std::vector<InitArgs>& args) {
  const auto made = std::make_shared<std::vector<wire::KeyEntry>>();
  Await("Init", Timeout(),
        [args, made, mode = options_.mode, timeout = Timeout()](
            Client& client, Time now, transport::Network& network, worker::Done done) {
          client.Init(
              now, mode, args, DeadlineOf(now, timeout),
              [made, done, &client](const Result<std::vector<uint32_t>>& result) {
                if (result)
                  for (const uint32_t id : result.value()) made->push_back(client.entry(id));
                done(result ? Status::Ok() : Status(result.failure()));
              },
              network);
        });
  const std::lock_guard lock(mutex_);
  for (const wire::KeyEntry& entry : *made) {
    const auto [known, is_new] = keys_.try_emplace(entry.spec.name);
    if (!is_new) continue;  // the compressor of a known key holds a residual that is still to be sent
    KeyState& state = known->second;
    const std::string key_op = " of key " + ToString(entry.spec.name);
    state.id = entry.id;
    state.push = NameOf("push" + key_op);
    state.push_pull = NameOf("push_pull" + key_op);
    state.pull = NameOf("pull" + key_op);
    state.set = "set" + key_op;
    state.shape = {entry.spec.shape, entry.spec.dtype, entry.spec.rows.has_value()};
    if (entry.spec.rows) {
      state.places = plan::PlacesOf(entry);
    } else {
      const std::vector<plan::Part> parts = plan::PartsOf(entry);
      state.bytes = static_cast<uint64_t>(entry.spec.shape.size()) * SizeOf(entry.spec.dtype);
      state.parts = parts.size();
      if (!parts.empty()) state.shard = parts.front().shard;
    }
    state.compressor = Compressor("compression" + key_op, PartLengths(entry));
  }
}

void DistStore::Trace(const Event& passed, Stage stage, const KeyState& state, uint64_t bytes) const {
  if (options_.tracer == nullptr) return;
  passed.OnDone([tracer = options_.tracer, stage, key = state.id, round = state.round,
                 bytes](const std::exception_ptr& error) {
    if (error == nullptr) tracer->OnStage(SteadyClock().Now(), stage, key, round, bytes);
  });
}

NDArray DistStore::Source(KeyState& state, const std::vector<NDArray>& values) {
  ++state.round;
  if (options_.tracer != nullptr) {
    Events written;
    for (const NDArray& value : values) written.push_back(ReadyToRead(value));
    const auto reduced = [tracer = options_.tracer, key = state.id, round = state.round,
                          bytes = state.bytes * values.size()](const std::exception_ptr& error) {
      if (error == nullptr) tracer->OnStage(SteadyClock().Now(), Stage::kReduce, key, round, bytes);
    };
    kvstore::WhenAll(written, reduced, records_);
  }
  if (values.size() == 1 && OnHost(values.front())) return values.front();
  if (!state.merged.valid()) {
    std::vector<Context> contexts;
    for (const NDArray& value : values) contexts.push_back(value.context());
    state.merged =
        NDArray::Empty(state.shape.shape, reducer_->Place(contexts, state.bytes), state.shape.dtype);
  }
  reducer_->Reduce(values, &state.merged, collective::ExponentOfSum(state.shape.dtype, values.size()));
  return state.merged.AsInContext(OnHost(state.merged) ? state.merged.context() : cpu_pinned(0));
}

Compressor::EncodedGradient DistStore::EncodedGradient(KeyState& state, const std::vector<NDArray>& values,
                                                       const PushOptions& options) {
  const NDArray source = Source(state, values);
  const uint32_t exponent = collective::ExponentOfSum(state.shape.dtype, values.size());
  const bool by_samples = optimizer_ != nullptr && optimizer_->config().normalize_by_samples;
  const double scale = by_samples ? static_cast<double>(options.samples) : options.divisor;
  // A push without samples has no effect, so the residual must not be sent with it.
  Compressor::EncodedGradient outgoing =
      options.uncompressed || scale == 0
          ? Compressor::EncodedGradient{source, {}, exponent}
          : state.compressor.Compress(compression_, source, exponent, scale, options_.host_work);
  if (!outgoing.bytes.SharesStorage(source))
    Trace(ReadyToRead(outgoing.bytes), Stage::kCompress, state, static_cast<uint64_t>(outgoing.bytes.size()));
  if (!options.uncompressed) outgoing.how.weights = Weights();
  return outgoing;
}

NDArray DistStore::Target(KeyState& state, const std::vector<NDArray>& outs) {
  for (const NDArray& out : outs) {
    if (OnHost(out)) return out;
  }
  if (!state.staging.valid())
    state.staging = NDArray::Empty(state.shape.shape, cpu_pinned(0), state.shape.dtype);
  return state.staging;
}

void DistStore::SubmitIfAdopting(const std::vector<NDArray>& arrays, CallBatch& calls) {
  if (std::ranges::any_of(arrays, Adopts)) calls.Submit();
}

Destination DistStore::DestinationIn(NDArray& target, const KeyState& state, bool kept, CallBatch& calls) {
  Adopter* adopter = options_.adopts && !kept ? AdopterOf(target) : nullptr;
  if (adopter != nullptr && adoption_budget_.Reserve(target.storage(), {state.parts, state.bytes})) {
    LetAdopt(target);
    return {{}, target.storage(), adopter};
  }
  SubmitIfAdopting({target}, calls);
  return {MutableHostBytes(target), target.storage(), nullptr};
}

void DistStore::Broadcast(const KeyState& state, const NDArray& target, const Event& delivered,
                          const std::vector<NDArray>& outs) {
  Trace(delivered, Stage::kBroadcast, state, state.bytes * outs.size());
  reducer_->Broadcast(target, outs);
}

// When no other operation is open, the caller has nothing to overlap with this call, so the loop
// may run it in the caller's thread.
CallBatch DistStore::NewCallBatch(size_t keys) {
  return {client_, keys, outstanding_.AllDone(), records_};
}

Event DistStore::Issue(const Label& what, KeyState& state, Events after, Call&& call, CallBatch& calls) {
  Event done = Event::Make(what, calls.may_run_inline() ? loop_driver_ : nullptr, records_);
  outstanding_.Add(what, done);
  after.push_back(state.issued);
  if (std::all_of(after.begin(), after.end(), [](const Event& event) { return event.Succeeded(); })) {
    calls.Add(std::move(call), done);
    return done;
  }
  state.issued = Event::Make(what, nullptr, records_);
  if (issuing_.size() == issuing_.capacity()) {
    ForgetIssued();
    issuing_.reserve(2 * issuing_.size() + 1);  // so that each event is looked at once on average
  }
  issuing_.push_back(state.issued);
  auto submit = [client = client_, call = std::move(call), done,
                 issued = state.issued](const std::exception_ptr& error) mutable {
    error == nullptr ? client.Submit(std::move(call), done, false) : done.Complete(error);
    issued.Complete();  // last: it may submit the key's next operation, in this thread
  };
  static_assert(kvstore::WhenAllDone::kFits<decltype(submit)>);
  kvstore::WhenAll(after, std::move(submit), records_);
  return done;
}

void DistStore::Push(const std::vector<Key>& keys, const std::vector<Values>& values,
                     const PushOptions& options) {
  outstanding_.Check();
  const std::lock_guard lock(mutex_);
  const auto entries = kvstore::GroupByKey("Push", keys, values);
  const Found states = FindAll("Push", entries);
  for (size_t i = 0; i < entries.size(); ++i)
    kvstore::RequireDivisor("Push", entries[i].key, states[i]->shape.dtype, options);
  const SmallKeys small = SmallOf(OpKind::kPush, states, options);
  CallBatch calls = NewCallBatch(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    KeyState& state = *states[i];
    if (const auto* values = &entries[i].arrays; GoesInBatch(small, state, values, nullptr)) {
      AddToBatch(small, state.push, state, values, nullptr, calls);
      continue;
    }
    SubmitIfAdopting(entries[i].arrays, calls);
    const auto [sent, how, exponent] = EncodedGradient(state, entries[i].arrays, options);
    // The read ends when the last holder of the frame has released it, possibly
    // long after the acknowledgement.
    const Event read = Event::Make(state.push.single, nullptr, records_);
    const PushArgs args{.key = state.id,
                        .compression = how,
                        .source = HostFrame(sent, read, records_),
                        .priority = options.priority,
                        .exponent = exponent,
                        .samples = options.samples,
                        .divisor = options.divisor};
    auto call = [args](Client& client, Time now, transport::Network& network, const EventCompleter& end) {
      client.Push(now, args, end, network);
    };
    const Event done = Issue(state.push.single, state, {ReadyToRead(sent)}, std::move(call), calls);
    AddReader(sent, read);
    state.compressor.Sent(done);
  }
}

void DistStore::PullInto(KeyState& state, const std::vector<NDArray>& outs, int priority, bool latest,
                         CallBatch& calls) {
  NDArray target = Target(state, outs);
  if (outs.size() > 1) SubmitIfAdopting(outs, calls);
  const PullArgs args{.key = state.id,
                      .destination = DestinationIn(target, state, outs.size() > 1, calls),
                      .priority = priority,
                      .slot = 0,
                      .latest = latest,
                      .weights = Weights()};
  auto call = [args, timeout = Timeout()](Client& client, Time now, transport::Network& network,
                                          const EventCompleter& end) {
    client.Pull(now, args, DeadlineOf(now, timeout), end, network);
  };
  const Event done = Issue(state.pull.single, state, PendingUses(target), std::move(call), calls);
  SetWriter(target, done);
  Broadcast(state, target, done, outs);
}

void DistStore::PullAll(const std::string& what, const std::vector<Key>& keys,
                        const std::vector<Values>& outs, int priority, bool latest) {
  outstanding_.Check();
  const std::lock_guard lock(mutex_);
  const auto entries = kvstore::GroupByKey(what, keys, outs);
  const Found states = FindAll(what, entries);
  SmallKeys small = SmallOf(OpKind::kPull, states, {.priority = priority});
  small.common.latest = latest;
  CallBatch calls = NewCallBatch(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    if (const auto* outs = &entries[i].arrays; GoesInBatch(small, *states[i], nullptr, outs))
      AddToBatch(small, states[i]->pull, *states[i], nullptr, outs, calls);
    else
      PullInto(*states[i], entries[i].arrays, priority, latest, calls);
    for (const NDArray& out : entries[i].arrays) SetOrigin(out, states[i]->origin);
  }
}

void DistStore::Pull(const std::vector<Key>& keys, const std::vector<Values>& outs, int priority) {
  PullAll("Pull", keys, outs, priority, false);
}

void DistStore::PullLatest(const std::vector<Key>& keys, const std::vector<Values>& outs, int priority) {
  PullAll("PullLatest", keys, outs, priority, true);
}

void DistStore::PushPull(const std::vector<Key>& keys, const std::vector<Values>& values,
                         const std::vector<Values>& outs, const PushOptions& options) {
  outstanding_.Check();
  const std::lock_guard lock(mutex_);
  const auto sources = kvstore::GroupByKey("PushPull", keys, values);
  const auto targets = kvstore::GroupByKey("PushPull", keys, outs.empty() ? values : outs);
  const Found states = FindAll("PushPull", sources);
  for (size_t i = 0; i < sources.size(); ++i) {
    kvstore::RequireFit("PushPull", targets[i].key, states[i]->shape, targets[i].arrays);
    kvstore::RequireDivisor("PushPull", sources[i].key, states[i]->shape.dtype, options);
  }
  const SmallKeys small = SmallOf(OpKind::kPushPull, states, options);
  CallBatch calls = NewCallBatch(sources.size());
  for (size_t i = 0; i < sources.size(); ++i) {
    KeyState& state = *states[i];
    const auto *values = &sources[i].arrays, *outs = &targets[i].arrays;
    if (GoesInBatch(small, state, values, outs)) {
      AddToBatch(small, state.push_pull, state, values, outs, calls);
      SetOrigin(outs->front(), state.origin);
      continue;
    }
    SubmitIfAdopting(sources[i].arrays, calls);
    const auto [sent, how, exponent] = EncodedGradient(state, sources[i].arrays, options);
    NDArray target = Target(state, targets[i].arrays);
    Events after = PendingUses(target);
    after.push_back(ReadyToRead(sent));
    const Event read = Event::Make(state.push_pull.single, nullptr, records_);
    const PushArgs push{.key = state.id,
                        .compression = how,
                        .source = HostFrame(sent, read, records_),
                        .priority = options.priority,
                        .exponent = exponent,
                        .samples = options.samples,
                        .divisor = options.divisor};
    const bool kept = targets[i].arrays.size() > 1 || sent.SharesStorage(target);
    if (kept) SubmitIfAdopting(targets[i].arrays, calls);
    const Destination destination = DestinationIn(target, state, kept, calls);
    auto call = [push, destination, timeout = Timeout()](
                    Client& client, Time now, transport::Network& network, const EventCompleter& end) {
      client.PushPull(now, push, destination, DeadlineOf(now, timeout), end, network);
    };
    static_assert(Call::kFits<decltype(call)>);
    const Event done = Issue(state.push_pull.single, state, std::move(after), std::move(call), calls);
    if (!sent.SharesStorage(target)) AddReader(sent, read);
    state.compressor.Sent(done);
    SetWriter(target, done);
    Broadcast(state, target, done, targets[i].arrays);
    for (const NDArray& out : targets[i].arrays) SetOrigin(out, state.origin);
  }
}

}  // namespace sluice::worker
