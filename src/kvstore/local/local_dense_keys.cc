// LocalDenseKeys: sums, updates and copies of whole arrays.
//
// LocalStore calls this on the program's threads, with its mutex held. A push sums the gradients of the
// devices and enqueues the update; a pull broadcasts the weight. Both run as operations of the devices'
// streams, which order them by the arrays that they use. A program's updater runs here, on the caller's
// thread.
#include "kvstore/local/local_dense_keys.h"

#include <cmath>

#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/access.h"

namespace sluice::kvstore {

void LocalDenseKeys::RequireNew(const Entries& entries) const {
  for (const auto& entry : entries) {
    const std::string text = ToString(entry.key);
    if (entry.arrays.size() > 1)
      throw Error(ErrorCode::kAlreadyExists, StrCat("Init of key ", text, ": the key exists already"));
    if (entries[0].key.index() != entry.key.index()) {
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat("Init of key ", text, ": integer and string keys do not mix in one store"));
    }
    const NDArray& value = entry.arrays.front();
    keys_.RequireNew(entry.key, {entry.key, value.dtype(), value.shape()}, settings_.rule);
  }
}

void LocalDenseKeys::Init(const std::vector<Key>& keys, const std::vector<NDArray>& values) {
  RequireValues(keys, values);
  std::vector<Values> lists;
  for (const NDArray& value : values) lists.push_back({value});
  const auto entries = GroupByKey("Init", keys, lists);
  RequireNew(entries);  // all keys or none
  for (const auto& entry : entries) {
    const NDArray& value = entry.arrays.front();
    LocalKey state;
    state.shape = {value.shape(), value.dtype()};
    state.spec = {entry.key, value.dtype(), value.shape()};
    // A preliminary place: only the first gradients show which devices there are (PlaceByLoad).
    state.weight = NDArray::Empty(value.shape(), reducer_->Place({value.context()}, 0), value.dtype());
    value.CopyTo(&state.weight);
    state.update_name = "update of key " + ToString(entry.key);
    state.push_name = "push of key " + ToString(entry.key);
    keys_.Add(entry.key, std::move(state));
  }
}

void LocalDenseKeys::PlaceByLoad(LocalKey& state, const std::vector<NDArray>& values) {
  std::vector<Context> contexts;
  for (const NDArray& value : values) contexts.push_back(value.context());
  const auto bytes = static_cast<uint64_t>(state.shape.shape.size()) * SizeOf(state.shape.dtype);
  const Context place = reducer_->Place(contexts, bytes);
  state.merged = NDArray::Empty(state.shape.shape, place, state.shape.dtype);
  if (state.weight.context() == place) return;
  // The states go along, once the last update has written them.
  ReadyToRead(state.weight).WaitQuietly();
  state.array_rule = nullptr;
  NDArray weight = NDArray::Empty(state.shape.shape, place, state.shape.dtype);
  state.weight.CopyTo(&weight);
  state.weight = weight;
}

NDArray LocalDenseKeys::Merge(LocalKey& state, const std::vector<NDArray>& values, uint32_t exponent) {
  if (values.size() == 1) return values.front();
  if (!state.merged.valid()) PlaceByLoad(state, values);
  reducer_->Reduce(values, &state.merged, exponent);
  return state.merged;
}

void LocalDenseKeys::AddUpdate(LocalKey& state, const NDArray& gradient, uint32_t exponent,
                               const PushOptions& options) {
  if (state.array_rule == nullptr) {
    FitStates(settings_.rule, &state);
    state.array_rule = std::make_shared<const ArrayRule>(
        ArrayRule{settings_.rule, state.spec, state.states.on_host(), state.states.on_card()});
  }
  std::optional<UpdateInput> input = NextUpdate(settings_.rule, &state, options);
  if (!input) return;
  input->length = static_cast<size_t>(state.shape.shape.size());
  input->scale = std::ldexp(input->scale, static_cast<int>(exponent));
  added_.push_back({state.update_name, state.array_rule, *input, gradient, state.weight, {}});
  added_names_.push_back(state.push_name);
}

// Whatever happens, no update is enqueued twice.
void LocalDenseKeys::EnqueueAdded() {
  const struct ClearAtEnd {
    LocalDenseKeys& keys;
    ~ClearAtEnd() {
      keys.added_.clear();
      keys.added_names_.clear();
    }
  } clear{*this};
  EnqueueUpdates(added_);
  for (size_t i = 0; i < added_.size(); ++i) context_.outstanding.Add(added_names_[i], added_[i].done);
}

void LocalDenseKeys::PushOne(const Key& key, const std::vector<NDArray>& values, const PushOptions& options) {
  LocalKey& state = keys_.keys().at(key);
  // An updater that asks for no division gets the sum itself, which must fit the key's type.
  const bool whole_sum = settings_.updater && options.divisor == 1;
  const uint32_t exponent = whole_sum ? 0 : collective::ExponentOfSum(state.shape.dtype, values.size());
  const NDArray gradient = Merge(state, values, exponent);
  if (settings_.updater) {
    NDArray weight = state.weight;
    const double factor = std::ldexp(1 / options.divisor, static_cast<int>(exponent));
    context_.updater_runner.Run(settings_.updater, key, gradient.AsInContext(weight.context()), factor,
                                weight);
    RequireFit("the updater's weight", key, state.shape, {weight});
    // The updater may have assigned another array to `weight`, perhaps the
    // gradient or one that the program uses elsewhere, so its value is copied.
    if (!weight.SharesStorage(state.weight)) weight.CopyTo(&state.weight);
    return;
  }
  AddUpdate(state, gradient, exponent, options);
}

void LocalDenseKeys::RequirePush(const std::string& what, const Entries& entries,
                                 const PushOptions& options) {
  for (const auto& entry : entries) {
    const KeyShape& shape = keys_.Find(what, entry.key).shape;
    RequireFit(what, entry.key, shape, entry.arrays);
    RequireDivisor(what, entry.key, shape.dtype, options);
  }
}

void LocalDenseKeys::RequirePull(const std::string& what, const Entries& entries) {
  for (const auto& entry : entries)
    RequireFit(what, entry.key, keys_.Find(what, entry.key).shape, entry.arrays);
}

void LocalDenseKeys::PushAll(const Entries& entries, const PushOptions& options) {
  try {
    for (const auto& entry : entries) PushOne(entry.key, entry.arrays, options);
  } catch (...) {
    EnqueueAdded();
    throw;
  }
  EnqueueAdded();
}

void LocalDenseKeys::Push(const std::vector<Key>& keys, const std::vector<Values>& values,
                          const PushOptions& options) {
  const auto entries = GroupByKey("Push", keys, values);
  RequirePush("Push", entries, options);
  PushAll(entries, options);
}

void LocalDenseKeys::PullAll(const Entries& entries) {
  for (const auto& entry : entries) {
    const LocalKey& state = keys_.keys().at(entry.key);
    reducer_->Broadcast(state.weight, entry.arrays);
    for (const NDArray& out : entry.arrays) SetOrigin(out, state.origin);
  }
}

void LocalDenseKeys::Pull(const std::vector<Key>& keys, const std::vector<Values>& outs) {
  const auto entries = GroupByKey("Pull", keys, outs);
  RequirePull("Pull", entries);
  PullAll(entries);
}

void LocalDenseKeys::PushPull(const std::vector<Key>& keys, const std::vector<Values>& values,
                              const std::vector<Values>& outs, const PushOptions& options) {
  const auto sources = GroupByKey("PushPull", keys, values);
  const auto targets = GroupByKey("PushPull", keys, outs.empty() ? values : outs);
  RequirePush("PushPull", sources, options);
  if (!outs.empty()) RequirePull("PushPull", targets);
  PushAll(sources, options);
  PullAll(targets);
}

void LocalDenseKeys::Set(const std::vector<Key>& keys, const std::vector<NDArray>& values) {
  const std::vector<Values> lists = OneArrayPerKey("Set", keys, values);
  const auto entries = GroupByKey("Set", keys, lists);
  for (const auto& entry : entries)
    RequireFit("Set", entry.key, keys_.Find("Set", entry.key).shape, entry.arrays);
  for (const auto& entry : entries) entry.arrays.front().CopyTo(&keys_.keys().at(entry.key).weight);
}

}  // namespace sluice::kvstore
