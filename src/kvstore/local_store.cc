// The stores `local` and `device`: dense keys (row-sparse ones are in local_rows.cc).
//
// A push sums the gradients of the devices and enqueues the update; a pull broadcasts the weight.
// Both run as operations of the devices' streams, which order them by the arrays that they use. A
// call checks all its arguments before it changes anything. mutex_ guards all state and is held
// while a call enqueues its work, and while a program's updater runs on the caller's thread.
#include "kvstore/local_store.h"

#include <cmath>
#include <cstring>

#include "base/strings.h"
#include "kvstore/states_file.h"
#include "sluice/error.h"
#include "tensor/access.h"
#include "tensor/origin.h"

namespace sluice::kvstore {

std::shared_ptr<KVStore> MakeLocalStore(const std::string& type, int threads) {
  return std::make_shared<LocalStore>(
      type, type == "local" ? collective::MakeHostReducer(threads) : collective::MakeDeviceReducer());
}

LocalStore::KeyState& LocalStore::Find(const std::string& what, const Key& key) {
  const auto it = keys_.find(key);
  if (it == keys_.end()) {
    throw Error(
        ErrorCode::kFailedPrecondition,
        StrCat(what, " of key ", ToString(key), ": the key has not been initialised; call Init first"));
  }
  return it->second;
}

void LocalStore::RequireNew(const Key& key, const wire::KeySpec& spec) const {
  RequireName(key);
  if (keys_.contains(key))
    throw Error(ErrorCode::kAlreadyExists, StrCat("Init of key ", ToString(key), ": the key exists already"));
  if (!keys_.empty() && keys_.begin()->first.index() != key.index()) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("Init of key ", ToString(key), ": integer and string keys do not mix in one store"));
  }
  ValidateRule(rule_, spec).OrThrow();
}

void LocalStore::RequireNew(const Entries& entries) const {
  for (const auto& entry : entries) {
    const std::string text = ToString(entry.key);
    if (entry.arrays.size() > 1)
      throw Error(ErrorCode::kAlreadyExists, StrCat("Init of key ", text, ": the key exists already"));
    if (entries[0].key.index() != entry.key.index()) {
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat("Init of key ", text, ": integer and string keys do not mix in one store"));
    }
    const NDArray& value = entry.arrays.front();
    RequireNew(entry.key, {entry.key, value.dtype(), value.shape()});
  }
}

void LocalStore::Init(const std::vector<Key>& keys, const std::vector<NDArray>& values) {
  const MutexLock lock(MutexForCall());
  RequireValues(keys, values);
  std::vector<Values> lists;
  for (const NDArray& value : values) lists.push_back({value});
  const auto entries = GroupByKey("Init", keys, lists);
  RequireNew(entries);  // all keys or none
  for (const auto& entry : entries) {
    const NDArray& value = entry.arrays.front();
    KeyState state;
    state.shape = {value.shape(), value.dtype()};
    state.spec = {entry.key, value.dtype(), value.shape()};
    // A preliminary place: only the first gradients show which devices there are (PlaceByLoad).
    state.weight = NDArray::Empty(value.shape(), reducer_->Place({value.context()}, 0), value.dtype());
    value.CopyTo(&state.weight);
    state.update_name = "update of key " + ToString(entry.key);
    state.push_name = "push of key " + ToString(entry.key);
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

NDArray LocalStore::Merge(KeyState& state, const std::vector<NDArray>& values, uint32_t exponent) {
  if (values.size() == 1) return values.front();
  if (!state.merged.valid()) PlaceByLoad(state, values);
  reducer_->Reduce(values, &state.merged, exponent);
  return state.merged;
}

void LocalStore::FitStates(KeyState& state) const {
  kvstore::FitStates(rule_.optimizer.get(), state.shape.dtype, static_cast<size_t>(state.shape.shape.size()),
                     &state.states);
}

std::optional<UpdateInput> LocalStore::NextUpdate(KeyState& state, const PushOptions& options) const {
  const bool by_samples = rule_.optimizer && rule_.optimizer->config().normalize_by_samples;
  if (by_samples && options.samples == 0) return std::nullopt;
  if (rule_.optimizer) ++state.num_updates;
  return UpdateInput{.scale = 1.0 / (by_samples ? static_cast<double>(options.samples) : options.divisor),
                     .samples = options.samples,
                     .round = static_cast<uint64_t>(state.num_updates),
                     .num_update = state.num_updates};
}

void LocalStore::AddUpdate(KeyState& state, const NDArray& gradient, uint32_t exponent,
                           const PushOptions& options) {
  if (state.update == nullptr) {
    FitStates(state);
    state.update = std::make_shared<const ArrayUpdate>(ArrayUpdate{rule_, state.spec, state.states.arrays});
  }
  std::optional<UpdateInput> input = NextUpdate(state, options);
  if (!input) return;
  input->length = static_cast<size_t>(state.shape.shape.size());
  input->scale = std::ldexp(input->scale, static_cast<int>(exponent));
  added_.push_back({state.update_name, state.update, *input, gradient, state.weight, {}});
  added_names_.push_back(state.push_name);
}

void LocalStore::EnqueueAdded() {
  EnqueueUpdates(added_);
  for (size_t i = 0; i < added_.size(); ++i) outstanding_.Add(added_names_[i], added_[i].done);
  added_.clear();
  added_names_.clear();
}

void LocalStore::RunUpdater(const Key& key, const NDArray& gradient, NDArray& weight) {
  const auto failed = [&](ErrorCode code, const std::string& why) {
    throw Error(code, StrCat("push of key ", ToString(key), ": the updater failed: ", why));
  };
  updating_ = std::this_thread::get_id();
  const struct Reset {
    std::atomic<std::thread::id>& id;
    ~Reset() { id = std::thread::id(); }
  } reset{updating_};
  try {
    updater_(key, gradient, weight);
  } catch (const Error& error) {
    failed(error.code(), error.what());
  } catch (const std::exception& error) {
    failed(ErrorCode::kFailedPrecondition, error.what());
  } catch (...) {
    failed(ErrorCode::kFailedPrecondition, "it threw something that is no std::exception");
  }
}

Mutex& LocalStore::MutexForCall() {
  if (updating_ == std::this_thread::get_id())
    throw Error(ErrorCode::kFailedPrecondition, "an updater may not call the store that calls it");
  return mutex_;
}

void LocalStore::PushOne(const Key& key, const std::vector<NDArray>& values, const PushOptions& options) {
  KeyState& state = keys_.at(key);
  const uint32_t exponent = updater_ ? 0 : collective::ExponentOfSum(state.shape.dtype, values.size());
  const NDArray gradient = Merge(state, values, exponent);
  if (updater_) {
    NDArray weight = state.weight;
    RunUpdater(key, gradient.AsInContext(weight.context()), weight);
    RequireFit("the updater's weight", key, state.shape, {weight});
    // The updater may have assigned another array to `weight`, perhaps the
    // gradient or one that the program uses elsewhere, so its value is copied.
    if (!weight.SharesStorage(state.weight)) weight.CopyTo(&state.weight);
    return;
  }
  AddUpdate(state, gradient, exponent, options);
}

void LocalStore::RequirePush(const std::string& what, const Entries& entries, const PushOptions& options) {
  for (const auto& entry : entries) {
    const KeyShape& shape = Find(what, entry.key).shape;
    RequireFit(what, entry.key, shape, entry.arrays);
    RequireDivisor(what, entry.key, shape.dtype, options);
  }
}

void LocalStore::RequirePull(const std::string& what, const Entries& entries) {
  for (const auto& entry : entries) RequireFit(what, entry.key, Find(what, entry.key).shape, entry.arrays);
}

void LocalStore::PushAll(const Entries& entries, const PushOptions& options) {
  try {
    for (const auto& entry : entries) PushOne(entry.key, entry.arrays, options);
  } catch (...) {
    EnqueueAdded();
    throw;
  }
  EnqueueAdded();
}

void LocalStore::Push(const std::vector<Key>& keys, const std::vector<Values>& values,
                      const PushOptions& options) {
  outstanding_.Check();
  const MutexLock lock(MutexForCall());
  const auto entries = GroupByKey("Push", keys, values);
  RequirePush("Push", entries, options);
  PushAll(entries, options);
}

void LocalStore::PullAll(const Entries& entries) {
  for (const auto& entry : entries) {
    const KeyState& state = keys_.at(entry.key);
    reducer_->Broadcast(state.weight, entry.arrays);
    for (const NDArray& out : entry.arrays) SetOrigin(out, state.origin);
  }
}

void LocalStore::Pull(const std::vector<Key>& keys, const std::vector<Values>& outs, int) {
  outstanding_.Check();
  const MutexLock lock(MutexForCall());
  const auto entries = GroupByKey("Pull", keys, outs);
  RequirePull("Pull", entries);
  PullAll(entries);
}

void LocalStore::PushPull(const std::vector<Key>& keys, const std::vector<Values>& values,
                          const std::vector<Values>& outs, const PushOptions& options) {
  outstanding_.Check();
  const MutexLock lock(MutexForCall());
  const auto sources = GroupByKey("PushPull", keys, values);
  const auto targets = GroupByKey("PushPull", keys, outs.empty() ? values : outs);
  RequirePush("PushPull", sources, options);
  if (!outs.empty()) RequirePull("PushPull", targets);
  PushAll(sources, options);
  PullAll(targets);
}

void LocalStore::Set(const std::vector<Key>& keys, const std::vector<NDArray>& values) {
  outstanding_.Check();
  const MutexLock lock(MutexForCall());
  const std::vector<Values> lists = OneArrayPerKey("Set", keys, values);
  const auto entries = GroupByKey("Set", keys, lists);
  for (const auto& entry : entries) RequireFit("Set", entry.key, Find("Set", entry.key).shape, entry.arrays);
  for (const auto& entry : entries) entry.arrays.front().CopyTo(&keys_.at(entry.key).weight);
}

uint64_t LocalStore::NumUpdates(const Key& key) {
  const MutexLock lock(MutexForCall());
  return static_cast<uint64_t>(Find("NumUpdates", key).num_updates);
}

void LocalStore::SetOptimizer(const OptimizerConfig& config) {
  const MutexLock lock(MutexForCall());
  const UpdateRule rule{.optimizer = Optimizer::Create(config), .updater = nullptr};
  for (const auto& [key, state] : keys_) ValidateRule(rule, state.spec).OrThrow();
  rule_ = rule;
  updater_ = nullptr;
  for (auto& [key, state] : keys_) state.update = nullptr;
}

void LocalStore::SetGradientCompression(const GradientCompression& compression) {
  RequireValid(compression);
  if (compression.type == Compression::kNone && compression.weights == Compression::kNone) return;
  throw Error(ErrorCode::kFailedPrecondition,
              StrCat("gradient compression ", Name(compression.type), ", weights ", Name(compression.weights),
                     ", on a store of type ", type_,
                     ": it saves bytes between machines, and this store sends none; use a dist store"));
}

void LocalStore::SetUpdater(Updater updater) {
  const MutexLock lock(MutexForCall());
  updater_ = std::move(updater);
}

std::vector<std::pair<std::string, LocalStore::KeyState*>> LocalStore::ByText() {
  if (!rule_.optimizer) throw Error(ErrorCode::kFailedPrecondition, "optimiser states: no optimiser was set");
  std::vector<std::pair<std::string, KeyState*>> states;
  for (auto& [key, state] : keys_) states.emplace_back(ToString(key), &state);
  return states;
}

StateLayout LocalStore::LayoutOf(const std::string& text, const KeyShape& shape) {
  return {text, shape.shape, shape.dtype, shape.row_sparse};
}

void LocalStore::SaveOptimizerStates(const std::string& path) {
  WaitAll(kDefaultTimeout);
  const MutexLock lock(MutexForCall());
  std::vector<StateLayout> layouts;
  std::map<std::string, KeyStates> saved;
  for (const auto& [text, state] : ByText()) {
    layouts.push_back(LayoutOf(text, state->shape));
    saved[text] = state->rows != nullptr ? StatesOfTable(*state) : StatesOfArray(*state);
  }
  SaveStates(path, *rule_.optimizer, layouts, saved);
}

KeyStates LocalStore::StatesOfArray(KeyState& state) const {
  KeyStates saved{.num_updates = static_cast<uint64_t>(state.num_updates), .slots = {}, .rows = {}};
  FitStates(state);
  for (const auto& array : state.states.arrays) {
    Buffer& copy = saved.slots.emplace_back(array->size());
    std::memcpy(copy.data(), array->data(), copy.size());
  }
  return saved;
}

void LocalStore::LoadOptimizerStates(const std::string& path) {
  WaitAll(kDefaultTimeout);
  const MutexLock lock(MutexForCall());
  std::vector<StateLayout> layouts;
  for (const auto& [text, state] : ByText()) layouts.push_back(LayoutOf(text, state->shape));
  auto loaded = LoadStates(path, *rule_.optimizer, layouts);
  for (const auto& [text, state] : ByText()) {
    state->num_updates = static_cast<int64_t>(loaded[text].num_updates);
    if (state->rows != nullptr) {
      SetStatesOfTable(*state, loaded[text]);
      continue;
    }
    state->update = nullptr;
    FitStates(*state);
    for (size_t slot = 0; slot < state->states.arrays.size(); ++slot)
      state->states.arrays[slot] = std::make_shared<Buffer>(std::move(loaded[text].slots[slot]));
  }
}

}  // namespace sluice::kvstore
