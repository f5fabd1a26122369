#include "kvstore/local_store.h"

#include <cstring>

#include "base/strings.h"
#include "kvstore/states_file.h"
#include "sluice/error.h"
#include "tensor/access.h"

namespace sluice::kvstore {

LocalStore::KeyState& LocalStore::Find(const std::string& what, const Key& key) {
  const auto it = keys_.find(key);
  if (it == keys_.end()) {
    throw Error(
        ErrorCode::kFailedPrecondition,
        StrCat(what, " of key ", ToString(key), ": the key has not been initialised; call Init first"));
  }
  return it->second;
}

void LocalStore::Init(const std::vector<Key>& keys, const std::vector<NDArray>& values) {
  const std::lock_guard lock(mutex_);
  std::vector<Values> lists;
  for (const NDArray& value : values) lists.push_back({value});
  for (const Entry& entry : Join("Init", keys, lists)) {
    const std::string text = ToString(entry.key);
    if (entry.arrays.size() > 1 || keys_.contains(entry.key)) {
      throw Error(ErrorCode::kAlreadyExists, StrCat("Init of key ", text, ": the key exists already"));
    }
    if (!keys_.empty() && keys_.begin()->first.index() != entry.key.index()) {
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat("Init of key ", text, ": integer and string keys do not mix in one store"));
    }
    const NDArray& value = entry.arrays.front();
    KeyState state;
    state.shape = {value.shape(), value.dtype()};
    state.spec = {entry.key, value.dtype(), value.shape()};
    CheckRule(rule_, state.spec).OrThrow();
    // For now: the first gradients tell which devices there are.
    state.weight = NDArray::Empty(value.shape(), reducer_->Place({value.context()}, 0), value.dtype());
    value.CopyTo(&state.weight);
    keys_.emplace(entry.key, std::move(state));
  }
}

void LocalStore::PlaceByLoad(KeyState& state, const std::vector<NDArray>& values) {
  std::vector<Context> contexts;
  for (const NDArray& value : values) contexts.push_back(value.context());
  const auto bytes = static_cast<uint64_t>(state.shape.shape.size()) * SizeOf(state.shape.dtype);
  const Context place = reducer_->Place(contexts, bytes);
  state.merged = NDArray::Empty(state.shape.shape, place, state.shape.dtype);
  if (state.weight.context() == place) return;
  NDArray weight = NDArray::Empty(state.shape.shape, place, state.shape.dtype);
  state.weight.CopyTo(&weight);
  state.weight = weight;
}

NDArray LocalStore::Merge(KeyState& state, const std::vector<NDArray>& values) {
  if (values.size() == 1) return values.front();
  if (!state.merged.valid()) PlaceByLoad(state, values);
  reducer_->Reduce(values, &state.merged);
  return state.merged;
}

void LocalStore::EnqueueUpdate(const Key& key, KeyState& state, const NDArray& gradient,
                               const PushOptions& options) {
  const size_t wanted = rule_.optimizer ? rule_.optimizer->num_slots() : 0;
  const auto length = static_cast<size_t>(state.shape.shape.size());
  while (state.slots.size() < wanted) {
    auto buffer = std::make_shared<Buffer>(SlotBytes(state.shape.dtype, length));
    std::memset(buffer->data(), 0, buffer->size());
    state.slots.push_back(std::move(buffer));
  }
  const bool by_samples = rule_.optimizer && rule_.optimizer->config().normalize_by_samples;
  if (by_samples && options.samples == 0) return;  // nobody had a sample: nothing changes
  if (rule_.optimizer) ++state.num_updates;
  UpdateInput input;
  input.length = length;
  input.scale = by_samples ? 1.0 / static_cast<double>(options.samples) : 1.0 / options.divisor;
  input.samples = options.samples;
  input.round = static_cast<uint64_t>(state.num_updates);
  input.num_update = state.num_updates;
  std::vector<Event> after = PendingUses(state.weight);
  after.push_back(ReadyToRead(state.weight));
  after.push_back(ReadyToRead(gradient));
  const auto work = [input, rule = rule_, spec = state.spec, slots = state.slots, from = HostFrame(gradient),
                     weight = HostFrame(state.weight), to = MutableHostBytes(state.weight).data()]() mutable {
    const std::byte* source[] = {from.data()};
    input.spec = &spec;
    input.gradients = source;
    UpdatePart(rule, input, weight.data(), to, slots);
  };
  const Event done = EnqueueOn(state.weight.context(), "update of key " + ToString(key), after, work);
  AddReader(gradient, done);
  SetWriter(state.weight, done);
  outstanding_.Add("push of key " + ToString(key), done);
}

void LocalStore::PushOne(const Key& key, const std::vector<NDArray>& values, const PushOptions& options) {
  KeyState& state = Find("Push", key);
  RequireFit("Push", key, state.shape, values);
  if (!(options.divisor > 0) || (!IsFloating(state.shape.dtype) && options.divisor != 1)) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("Push of key ", ToString(key), ", ", Name(state.shape.dtype), ": the divisor is ",
                       options.divisor));
  }
  const NDArray gradient = Merge(state, values);
  if (updater_) return updater_(key, gradient.AsInContext(state.weight.context()), state.weight);
  EnqueueUpdate(key, state, gradient, options);
}

void LocalStore::Push(const std::vector<Key>& keys, const std::vector<Values>& values,
                      const PushOptions& options) {
  outstanding_.Check();
  const std::lock_guard lock(mutex_);
  const auto entries = Join("Push", keys, values);
  for (const Entry& entry : entries)
    RequireFit("Push", entry.key, Find("Push", entry.key).shape, entry.arrays);
  for (const Entry& entry : entries) PushOne(entry.key, entry.arrays, options);
}

void LocalStore::Pull(const std::vector<Key>& keys, const std::vector<Values>& outs, int) {
  outstanding_.Check();
  const std::lock_guard lock(mutex_);
  const auto entries = Join("Pull", keys, outs);
  for (const Entry& entry : entries)
    RequireFit("Pull", entry.key, Find("Pull", entry.key).shape, entry.arrays);
  for (const Entry& entry : entries) reducer_->Broadcast(keys_.at(entry.key).weight, entry.arrays);
}

void LocalStore::PushPull(const std::vector<Key>& keys, const std::vector<Values>& values,
                          const std::vector<Values>& outs, const PushOptions& options) {
  Push(keys, values, options);
  Pull(keys, outs.empty() ? values : outs, options.priority);
}

void LocalStore::SetOptimizer(const OptimizerConfig& config) {
  const std::lock_guard lock(mutex_);
  const UpdateRule rule{.optimizer = Optimizer::Create(config), .updater = nullptr};
  for (const auto& [key, state] : keys_) CheckRule(rule, state.spec).OrThrow();
  if (rule_.optimizer && rule_.optimizer->num_slots() != rule.optimizer->num_slots()) {
    for (auto& [key, state] : keys_) state.slots.clear();
  }
  rule_ = rule;
  updater_ = nullptr;
}

void LocalStore::SetUpdater(Updater updater) {
  const std::lock_guard lock(mutex_);
  updater_ = std::move(updater);
}

std::vector<std::pair<std::string, LocalStore::KeyState*>> LocalStore::ByText() {
  if (!rule_.optimizer) throw Error(ErrorCode::kFailedPrecondition, "optimiser states: no optimiser was set");
  std::vector<std::pair<std::string, KeyState*>> states;
  for (auto& [key, state] : keys_) states.emplace_back(ToString(key), &state);
  return states;
}

void LocalStore::SaveOptimizerStates(const std::string& path) {
  outstanding_.Wait(kDefaultTimeout);
  const std::lock_guard lock(mutex_);
  std::vector<StateLayout> layouts;
  std::map<std::string, KeyStates> saved;
  for (const auto& [text, state] : ByText()) {
    layouts.push_back({text, state->shape.shape, StateType(state->shape.dtype)});
    saved[text].num_updates = static_cast<uint64_t>(state->num_updates);
    for (size_t slot = 0; slot < rule_.optimizer->num_slots(); ++slot) {
      Buffer& copy = saved[text].slots.emplace_back(
          SlotBytes(state->shape.dtype, static_cast<size_t>(state->shape.shape.size())));
      if (slot < state->slots.size()) {
        std::memcpy(copy.data(), state->slots[slot]->data(), copy.size());
      } else {
        std::memset(copy.data(), 0, copy.size());
      }
    }
  }
  SaveStates(path, *rule_.optimizer, layouts, saved);
}

void LocalStore::LoadOptimizerStates(const std::string& path) {
  outstanding_.Wait(kDefaultTimeout);
  const std::lock_guard lock(mutex_);
  std::vector<StateLayout> layouts;
  for (const auto& [text, state] : ByText())
    layouts.push_back({text, state->shape.shape, StateType(state->shape.dtype)});
  auto loaded = LoadStates(path, *rule_.optimizer, layouts);
  for (const auto& [text, state] : ByText()) {
    state->num_updates = static_cast<int64_t>(loaded[text].num_updates);
    state->slots.clear();
    for (Buffer& buffer : loaded[text].slots)
      state->slots.push_back(std::make_shared<Buffer>(std::move(buffer)));
  }
}

}  // namespace sluice::kvstore
