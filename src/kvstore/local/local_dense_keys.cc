// LocalDenseKeys: sums, updates and copies of whole arrays.
//
// LocalStore calls this on the program's threads, with its mutex held. A push sums the gradients of the
// devices and enqueues the update; a pull broadcasts the weight. Both run as operations of the devices'
// streams, which order them by the arrays that they use. On a card the update of a PushPull writes pulled
// arrays as well. A program's updater runs here, on the caller's thread.
#include "kvstore/local/local_dense_keys.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/inline_vector.h"
#include "base/strings.h"
#include "kvstore/card_update.h"
#include "sluice/error.h"
#include "tensor/access.h"
#include "tensor/storage.h"

namespace sluice::kvstore {
namespace {

// Whether the array has the elements of one of the gradients.
bool IsGradient(const NDArray& array, const PendingUpdate& update) {
  return std::ranges::any_of(update.gradients, [&](const NDArray& gradient) {
    return array.SharesStorage(gradient) && array.offset() == gradient.offset();
  });
}

}  // namespace

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
  if (state.weight.context() == place) {
    state.place = place;
    return;
  }
  // The states go along, once the last update has written them.
  ReadyToRead(state.weight).WaitQuietly();
  state.array_rule = nullptr;
  NDArray weight = NDArray::Empty(state.shape.shape, place, state.shape.dtype);
  state.weight.CopyTo(&weight);
  state.weight = weight;
  state.place = place;  // last: without memory the next push tries again
}

NDArray& LocalDenseKeys::MergedOf(LocalKey& state, const std::vector<NDArray>& values) {
  if (!state.place) PlaceByLoad(state, values);
  if (!state.merged.valid())
    state.merged = NDArray::Empty(state.shape.shape, *state.place, state.shape.dtype);
  return state.merged;
}

NDArray LocalDenseKeys::Merge(LocalKey& state, const std::vector<NDArray>& values, uint32_t exponent) {
  if (values.size() == 1) return values.front();
  NDArray& merged = MergedOf(state, values);
  reducer_->Reduce(values, &merged, exponent);
  return merged;
}

InlineVector<NDArray, 1> LocalDenseKeys::GradientsOf(LocalKey& state, const std::vector<NDArray>& values,
                                                     uint32_t exponent) {
  if (values.size() == 1) return {values.front()};
  if (!state.place) PlaceByLoad(state, values);
  const bool adds_up = values.size() <= kMostGradients && reducer_->AddsUpAt(*state.place) &&
                       std::ranges::none_of(values, OnHost);
  if (!adds_up) {
    sums_.push_back({values, &MergedOf(state, values), exponent});
    return {state.merged};
  }
  InlineVector<NDArray, 1> gradients;
  for (const NDArray& value : values) gradients.push_back(value);
  return gradients;
}

void LocalDenseKeys::AddUpdate(LocalKey& state, const std::vector<NDArray>& values, uint32_t exponent,
                               const PushOptions& options) {
  InlineVector<NDArray, 1> gradients = GradientsOf(state, values, exponent);  // it may move the states
  if (state.array_rule == nullptr) {
    FitStates(settings_.rule, &state);
    state.array_rule = std::make_shared<const ArrayRule>(
        ArrayRule{settings_.rule, state.spec, state.states.on_host(), state.states.on_card()});
  }
  std::optional<UpdateInput> input = NextUpdate(settings_.rule, &state, options);
  if (!input) return;
  input->length = static_cast<size_t>(state.shape.shape.size());
  input->scale = std::ldexp(input->scale, static_cast<int>(exponent));
  added_.push_back({.what = state.update_name,
                    .array_rule = state.array_rule,
                    .input = *input,
                    .gradients = std::move(gradients),
                    .weight = state.weight,
                    .done = {},
                    .exponent = exponent});
  added_names_.push_back(state.push_name);
}

void LocalDenseKeys::EnqueueAdded() {
  reducer_->ReduceAll(sums_);
  EnqueueUpdates(added_);
  InlineVector<Context, 4> cards;  // whose updates share an end, and are one failure
  for (size_t i = 0; i < added_.size(); ++i) {
    const Context context = added_[i].weight.context();
    if (std::ranges::find(cards, context) != cards.end()) continue;
    if (context.kind == DeviceKind::kGpu) cards.push_back(context);
    context_.outstanding.Add(added_names_[i], added_[i].done);
  }
}

void LocalDenseKeys::PushOne(const Key& key, const std::vector<NDArray>& values, const PushOptions& options) {
  LocalKey& state = keys_.keys().at(key);
  // An updater that asks for no division gets the sum itself, which must fit the key's type.
  const bool whole_sum = settings_.updater && options.divisor == 1;
  const uint32_t exponent = whole_sum ? 0 : collective::ExponentOfSum(state.shape.dtype, values.size());
  if (settings_.updater) {
    const NDArray gradient = Merge(state, values, exponent);
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
  AddUpdate(state, values, exponent, options);
}

void LocalDenseKeys::RequirePush(const std::string& what, const Entries& entries,
                                 const PushOptions& options) {
  for (const auto& entry : entries) {
    const KeyShape& shape = keys_.Find(what, entry.key).shape;
    RequireFit(what, entry.key, shape, entry.arrays);
    RequireDivisor(what, entry.key, shape.dtype, options);
    if (entry.arrays.size() == 1) continue;
    for (const NDArray& array : entry.arrays) reducer_->RequireContext(array);
  }
}

void LocalDenseKeys::RequirePull(const std::string& what, const Entries& entries) {
  for (const auto& entry : entries)
    RequireFit(what, entry.key, keys_.Find(what, entry.key).shape, entry.arrays);
}

std::vector<KVStore::Values> LocalDenseKeys::PushAll(const Entries& entries, const PushOptions& options,
                                                     const Entries* pulled) {
  // Whatever happens, no update is enqueued twice.
  const struct ClearAtEnd {
    LocalDenseKeys& keys;
    ~ClearAtEnd() {
      keys.sums_.clear();
      keys.added_.clear();
      keys.added_names_.clear();
      keys.added_places_.clear();
    }
  } clear{*this};
  try {
    for (size_t i = 0; i < entries.size(); ++i) {
      PushOne(entries[i].key, entries[i].arrays, options);
      if (added_places_.size() < added_.size()) added_places_.push_back(i);
    }
  } catch (...) {
    const std::exception_ptr first = std::current_exception();
    try {
      EnqueueAdded();
    } catch (...) {  // the first error is shown
    }
    std::rethrow_exception(first);
  }
  std::vector<Values> left;
  if (pulled != nullptr) left = AddCopies(*pulled);
  EnqueueAdded();
  return left;
}

// An update may write the gradient that it reads, element by element. What another one reads, or what is
// pulled for several keys, is written after all updates, in the order of the keys. So is a part of an array:
// its earlier failures would become those of the updates.
std::vector<KVStore::Values> LocalDenseKeys::AddCopies(const Entries& pulled) {
  const auto on_card = [](const PendingUpdate& update) {
    return update.weight.context().kind == DeviceKind::kGpu;
  };
  std::vector<Values> left;
  if (std::ranges::none_of(added_, on_card)) return left;
  std::unordered_map<const void*, int> uses;  // by memory
  for (const PendingUpdate& update : added_) {
    for (const NDArray& gradient : update.gradients) ++uses[gradient.storage().get()];
    uses[update.weight.storage().get()] = 2;
  }
  for (const auto& entry : pulled) left.push_back(entry.arrays);
  size_t next = 0;
  for (size_t place = 0; place < left.size(); ++place) {
    const bool has_update = next < added_.size() && added_places_[next] == place;
    PendingUpdate* const update = has_update ? &added_[next++] : nullptr;
    std::erase_if(left[place], [&](const NDArray& out) {
      int& used = uses[out.storage().get()];
      const bool is_free = used == 0 || (used == 1 && update != nullptr && IsGradient(out, *update));
      used = 2;
      if (update == nullptr || !on_card(*update) || update->copies.size() == kMostCopies) return false;
      if (!is_free || internal::IsPart(out) || out.context() != update->weight.context()) return false;
      update->copies.push_back(out);
      return true;
    });
  }
  return left;
}

void LocalDenseKeys::Push(const std::vector<Key>& keys, const std::vector<Values>& values,
                          const PushOptions& options) {
  const auto entries = GroupByKey("Push", keys, values);
  RequirePush("Push", entries, options);
  PushAll(entries, options);
}

void LocalDenseKeys::PullAll(const Entries& entries, const std::vector<Values>& left) {
  copies_.clear();
  for (size_t i = 0; i < entries.size(); ++i)
    copies_.push_back({&keys_.keys().at(entries[i].key).weight, left.empty() ? entries[i].arrays : left[i]});
  reducer_->BroadcastAll(copies_, [&](size_t i) {
    for (const NDArray& out : entries[i].arrays) SetOrigin(out, keys_.keys().at(entries[i].key).origin);
  });
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
  const std::vector<Values> left = PushAll(sources, options, &targets);
  PullAll(targets, left);
}

void LocalDenseKeys::Set(const std::vector<Key>& keys, const std::vector<NDArray>& values) {
  const std::vector<Values> lists = OneArrayPerKey("Set", keys, values);
  const auto entries = GroupByKey("Set", keys, lists);
  for (const auto& entry : entries)
    RequireFit("Set", entry.key, keys_.Find("Set", entry.key).shape, entry.arrays);
  for (const auto& entry : entries) entry.arrays.front().CopyTo(&keys_.keys().at(entry.key).weight);
}

}  // namespace sluice::kvstore
