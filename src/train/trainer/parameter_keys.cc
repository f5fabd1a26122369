// ParameterKeys: keys of a Trainer's parameters, made at its start or late (parameter_keys.h).
//
// Rank 0's values come by a pull where the store updates, else as a sum. awaited_ lists the parameters that
// MakeLate has not finished; a parameter whose MakeLate failed stays there, with values but without a key.
// The Trainer calls this on the training thread, a parameter its callback within a forward or SetData.
#include "train/trainer/parameter_keys.h"

#include <algorithm>

#include "base/strings.h"
#include "sluice/error.h"
#include "sluice/store_type.h"
#include "tensor/access.h"

namespace sluice::internal {
namespace {

NDArray CopyInHostMemory(const NDArray& array) {
  NDArray copy = NDArray::Empty(array.shape(), cpu_pinned(0), array.dtype());
  array.CopyTo(&copy);
  return copy;
}

}  // namespace

void ParameterKeys::AwaitShapes(const std::function<void(TrackedParameter*)>& made) {
  const auto await = [&](const std::shared_ptr<nn::Parameter>& parameter, TrackedParameter* tracked) {
    if (!parameter->deferred()) return;
    awaited_.push_back(
        {parameter, std::make_shared<const std::function<void()>>([this, parameter, tracked, made] {
           MakeLate(parameter, tracked);
           made(tracked);
         })});
    parameter->WhenInitialized(awaited_.back().callback);
  };
  for (TrackedParameter& tracked : tracked_) {
    if (!tracked.row_sparse()) await(tracked.parameter, &tracked);
  }
  for (const auto& constant : constants_) await(constant, nullptr);
}

std::string ParameterKeys::MakeKnown() {
  Parameters parameters;
  const auto add = [&](const std::shared_ptr<nn::Parameter>& parameter, TrackedParameter* tracked) {
    if (parameter->deferred()) return;
    known_.emplace_back(parameter, tracked);
    parameters.push_back(parameter);
  };
  // Keys are spread over the servers one by one, in this order. Those that will be pushed come first,
  // so that they are balanced among themselves.
  for (const bool frozen : {false, true}) {
    for (TrackedParameter& one : tracked_) {
      if (one.frozen() == frozen && !one.row_sparse()) add(one.parameter, &one);
    }
  }
  for (const auto& constant : constants_) add(constant, nullptr);
  return Make(parameters);
}

void ParameterKeys::StartKnown() {
  for (const auto& [parameter, tracked] : std::exchange(known_, {})) StartWith(*parameter, tracked);
}

// Makes the key of a parameter whose shape was deferred, within the first forward or SetData. Workers
// come here at different times. Each waits for rank 0's values and, with update_on_kvstore, not for
// other workers. In sync stores no round of the key closes before every worker has pushed, so the
// pulled values are rank 0's. In async stores other workers may have pushed already, so a difference
// from rank 0's values is no error there.
void ParameterKeys::MakeLate(const std::shared_ptr<nn::Parameter>& parameter, TrackedParameter* tracked) {
  try {
    const std::string why = Make({parameter});
    if (!why.empty() && !StoreType::Parse(store_.type()).async)
      throw Error(ErrorCode::kFailedPrecondition, why);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDeadlineExceeded) throw;
    throw Error(error.code(), StrCat("while the first forward brings parameter ", parameter->name(),
                                     ", which all workers must run: ", error.what()));
  }
  StartWith(*parameter, tracked);
  std::erase_if(awaited_, [&](const Awaited& awaited) { return awaited.parameter == parameter; });
}

// Makes the keys with this worker's values and, with update_on_kvstore, pulls them. Returns "" or, on
// rank 0, why the store has other values: see PullWeights.
std::string ParameterKeys::Make(const Parameters& parameters) {
  if (parameters.empty()) return "";
  std::vector<Key> keys;
  std::vector<NDArray> values;
  std::vector<KVStore::Values> outs;
  for (const auto& parameter : parameters) {
    keys.emplace_back(parameter->name());
    values.push_back(parameter->list_data().front());
    outs.push_back(parameter->list_data());
  }
  store_.Init(keys, values);
  // With update_on_kvstore = false the store keeps sums: a key that existed before may hold another Trainer's
  // gradients, so it is not pulled.
  return local_update_ == nullptr ? PullWeights(keys, outs) : "";
}

// Prepares a parameter whose key exists for steps. `tracked` is null for a constant.
void ParameterKeys::StartWith(nn::Parameter& parameter, TrackedParameter* tracked) {
  const std::vector<NDArray>& data = parameter.list_data();
  if (local_update_ != nullptr) {
    if (tracked != nullptr) {
      local_update_->Add(parameter.name(), data);
    } else {
      local_update_->AddConstant(parameter.name(), data);
    }
    BroadcastWeights(parameter);
  }
  if (tracked == nullptr) return;
  tracked->has_key = true;
  tracked->stored.Note(data);
}

// Pulls the keys into `outs`. Returns "" or, on rank 0 of a dist store, why the store has other values
// than this worker: Init has found the keys there already, made by another Trainer.
std::string ParameterKeys::PullWeights(const std::vector<Key>& keys,
                                       const std::vector<KVStore::Values>& outs) {
  std::vector<NDArray> before;
  const bool checks = store_.rank() == 0 && StoreType::Parse(store_.type()).distributed;
  for (const KVStore::Values& arrays : outs) {
    if (checks) before.push_back(CopyInHostMemory(arrays.front()));
  }
  store_.Pull(keys, outs);
  for (size_t i = 0; i < before.size(); ++i) {
    const NDArray pulled = CopyInHostMemory(outs[i].front());
    before[i].WaitToRead();
    pulled.WaitToRead();
    if (std::ranges::equal(HostBytes(before[i]), HostBytes(pulled))) continue;
    return StrCat(
        "the servers have other values of ", ToString(keys[i]),
        " than this Trainer: the store serves another Trainer, which has made and trained it. Give this "
        "network a store of its own (KVStore::Create), or go on from the trained values");
  }
  return "";
}

// Brings rank 0's values to all workers as a sum: rank 0 pushes its values and the others push -0.
void ParameterKeys::BroadcastWeights(nn::Parameter& parameter) {
  const std::vector<NDArray>& data = parameter.list_data();
  const NDArray& value = data.front();
  NDArray mine = NDArray::Empty(value.shape(), value.context(), value.dtype());
  store_.rank() == 0 ? value.CopyTo(&mine) : mine.Fill(-0.0);  // -0 changes no addend, not even -0
  store_.PushPull({Key(parameter.name())}, {{mine}}, {data}, {.uncompressed = true});
}

void ParameterKeys::ThrowNoKey(const char* what, const nn::Parameter& parameter) {
  throw Error(
      ErrorCode::kFailedPrecondition,
      parameter.deferred()
          ? StrCat(what, ": parameter ", parameter.name(), " has shape ", parameter.shape(),
                   " (0: unknown) and gets its values at the first forward: run one on every worker")
          : StrCat(what, ": parameter ", parameter.name(),
                   " has not come to the store, since the call that gave it its values has failed; make a "
                   "new Trainer"));
}

void ParameterKeys::RequireNoFailure() const {
  for (const Awaited& awaited : awaited_) {
    if (!awaited.parameter->deferred()) ThrowNoKey("a step", *awaited.parameter);
  }
}

void ParameterKeys::RequireComplete(const char* what) const {
  if (!awaited_.empty()) ThrowNoKey(what, *awaited_.front().parameter);
}

}  // namespace sluice::internal
