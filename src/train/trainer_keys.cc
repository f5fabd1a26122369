// Makes the parameters of a Trainer keys of its store and brings rank 0's values to every context of
// every worker.
//
// This happens in the constructor or, for a parameter whose shape is deferred, in InitLate: within the
// first forward or SetData, by a callback of Parameter::WhenInitialized. awaited_ lists the parameters
// that InitLate has not finished; steps check it, since a parameter whose InitLate failed has values
// but no key. All of it runs on the training thread.
#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/strings.h"
#include "sluice/error.h"
#include "sluice/store_type.h"
#include "sluice/trainer.h"
#include "tensor/access.h"
#include "train/local_update.h"
#include "train/stored_weights.h"

namespace sluice {
namespace {

bool IsAsync(const KVStore& store) {
  return StoreType::Parse(store.type()).async;
}

}  // namespace

void Trainer::AwaitShapes() {
  const auto await = [this](const std::shared_ptr<nn::Parameter>& parameter, Tracked* tracked) {
    if (!parameter->deferred()) return;
    awaited_.push_back({parameter, std::make_shared<const std::function<void()>>(
                                       [this, parameter, tracked] { InitLate(parameter, tracked); })});
    parameter->WhenInitialized(awaited_.back().callback);
  };
  for (Tracked& tracked : tracked_) await(tracked.parameter, &tracked);
  for (const auto& constant : constants_) await(constant, nullptr);
}

void Trainer::InitKeys() {
  Parameters known;
  std::vector<Tracked*> tracked;  // for each of `known`; null for a constant
  const auto add = [&](const std::shared_ptr<nn::Parameter>& parameter, Tracked* its) {
    if (parameter->deferred()) return;
    known.push_back(parameter);
    tracked.push_back(its);
  };
  // Keys are spread over the servers one by one, in this order. Those that will be pushed come first,
  // so that they are balanced among themselves.
  for (const bool frozen : {false, true}) {
    for (Tracked& one : tracked_) {
      if (one.frozen() == frozen) add(one.parameter, &one);
    }
  }
  for (const auto& constant : constants_) add(constant, nullptr);
  const std::string why = MakeKeys(known);
  rates_ = Optimizer::Create(config_);
  stored_ = std::make_unique<StoredWeights>();
  if (options_.update_on_kvstore) {
    store_->SetOptimizer(config_);
  } else {
    local_update_ = std::make_unique<LocalUpdate>(config_);
    RequireSums();
  }
  for (size_t i = 0; i < known.size(); ++i) StartWith(*known[i], tracked[i]);
  // This is a barrier: no worker pushes before the store has its optimiser.
  AgreeOnUpdates(why.empty() ? std::nullopt : std::optional(Error(ErrorCode::kFailedPrecondition, why)));
}

// Makes the key of a parameter whose shape was deferred, within the first forward or SetData. Workers
// come here at different times. Each waits for rank 0's values and, with update_on_kvstore, not for
// other workers. In sync stores no round of the key closes before every worker has pushed, so the
// pulled values are rank 0's. In async stores other workers may have pushed already, so a difference
// from rank 0's values is no error there.
void Trainer::InitLate(const std::shared_ptr<nn::Parameter>& parameter, Tracked* tracked) {
  try {
    const std::string why = MakeKeys({parameter});
    if (!why.empty() && !IsAsync(*store_)) throw Error(ErrorCode::kFailedPrecondition, why);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDeadlineExceeded) throw;
    throw Error(error.code(), StrCat("while the first forward brings parameter ", parameter->name(),
                                     ", which all workers must run: ", error.what()));
  }
  StartWith(*parameter, tracked);
  std::erase_if(awaited_, [&](const Awaited& awaited) { return awaited.parameter == parameter; });
  // The store may have updated the values for another Trainer before. In async stores the number cannot
  // be taken: it may already include other workers' pushes.
  if (awaited_.empty() && updates_ == 0 && !IsAsync(*store_)) updates_ = UpdatesSoFar();
  if (tracked == nullptr) return;
  FollowVariablesOf(static_cast<size_t>(tracked - tracked_.data()));
  SeeVersions(*tracked);
}

// Makes the keys with this worker's values and, with update_on_kvstore, pulls them. Returns "" or, on
// rank 0, why the store has other values: see PullWeights.
std::string Trainer::MakeKeys(const Parameters& parameters) {
  if (parameters.empty()) return "";
  std::vector<Key> keys;
  std::vector<NDArray> values;
  std::vector<KVStore::Values> outs;
  for (const auto& parameter : parameters) {
    keys.emplace_back(parameter->name());
    values.push_back(parameter->list_data().front());
    outs.push_back(parameter->list_data());
  }
  store_->Init(keys, values);
  // With update_on_kvstore = false the store keeps sums: a key that existed before may hold another Trainer's
  // gradients, so it is not pulled.
  return options_.update_on_kvstore ? PullWeights(keys, outs) : "";
}

// Prepares a parameter whose key exists for steps. `tracked` is null for a constant.
void Trainer::StartWith(nn::Parameter& parameter, Tracked* tracked) {
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
  stored_->Note(static_cast<size_t>(tracked - tracked_.data()), data);
}

// Returns how many updates the first parameter with a gradient has had. They are more than 0 in a store
// that has served a Trainer before or has loaded states. In async stores, each worker's push being an
// update, they are divided by the number of workers.
int64_t Trainer::UpdatesSoFar() const {
  const auto first = std::ranges::find_if(tracked_, [](const Tracked& tracked) { return !tracked.rests(); });
  if (first == tracked_.end()) return 0;
  if (local_update_ != nullptr) return local_update_->NumUpdates(first->parameter->name());
  return static_cast<int64_t>(store_->NumUpdates(first->keys.front())) /
         (IsAsync(*store_) ? store_->num_workers() : 1);
}

// Sets updates_ to rank 0's UpdatesSoFar on all workers; it is a barrier. Throws `failure` where there
// is one, and rank 0's failure on all workers.
void Trainer::AgreeOnUpdates(const std::optional<Error>& failure) {
  constexpr std::string_view kUpdates = "updates ";  // no error's message begins like this
  const bool knows = store_->rank() == 0 && !failure;
  const std::string word = store_->Agree(failure ? failure->what()
                                         : knows ? StrCat(kUpdates, UpdatesSoFar())
                                                 : std::string());
  if (failure) throw *failure;
  if (!word.starts_with(kUpdates)) throw Error(ErrorCode::kFailedPrecondition, word);
  std::from_chars(word.data() + kUpdates.size(), word.data() + word.size(), updates_);
}

// Pulls the keys into `outs`. Returns "" or, on rank 0 of a dist store, why the store has other values
// than this worker: Init has found the keys there already, made by another Trainer.
std::string Trainer::PullWeights(const std::vector<Key>& keys, const std::vector<KVStore::Values>& outs) {
  std::vector<NDArray> before;
  const bool checks = store_->rank() == 0 && StoreType::Parse(store_->type()).distributed;
  for (const KVStore::Values& arrays : outs) {
    if (checks) before.push_back(arrays.front().Copy());
  }
  store_->Pull(keys, outs);
  for (size_t i = 0; i < before.size(); ++i) {
    before[i].WaitToRead();
    outs[i].front().WaitToRead();
    if (std::ranges::equal(HostBytes(before[i]), HostBytes(outs[i].front()))) continue;
    return StrCat(
        "the servers have other values of ", ToString(keys[i]),
        " than this Trainer: the store serves another Trainer, which has made and trained it. Give this "
        "network a store of its own (KVStore::Create), or go on from the trained values");
  }
  return "";
}

// Pushes 1 from rank 0 and 0 from the others, which shows whether the store sums: Throws
// Error(kFailedPrecondition) when the result is not 1. The same push sums the workers' numbers of
// devices into devices_.
void Trainer::RequireSums() {
  const Key probe("Trainer/probe");
  float devices = 1;
  for (const Tracked& tracked : tracked_)
    devices = std::max(devices, static_cast<float>(tracked.parameter->list_ctx().size()));
  NDArray sums = NDArray::From({store_->rank() == 0 ? 1.0f : 0.0f, devices}, {2});
  store_->Init(probe, sums);
  store_->PushPull(probe, sums, nullptr, {.uncompressed = true});
  const std::vector<float> sum = sums.ToVector();
  devices_ = static_cast<int64_t>(sum[1]);
  if (sum[0] == 1) return;
  throw Error(
      ErrorCode::kFailedPrecondition,
      StrCat("a Trainer with update_on_kvstore = false (clip_global_norm needs that) takes sums from the "
             "store, but this ",
             store_->type(),
             " store updates by itself: it has an optimiser or a server program; take a store without"));
}

// Brings rank 0's values to all workers as a sum: rank 0 pushes its values and the others push -0.
void Trainer::BroadcastWeights(nn::Parameter& parameter) {
  const std::vector<NDArray>& data = parameter.list_data();
  const NDArray& value = data.front();
  NDArray mine = NDArray::Empty(value.shape(), value.context(), value.dtype());
  store_->rank() == 0 ? value.CopyTo(&mine) : mine.Fill(-0.0);  // -0 changes no addend, not even -0
  store_->PushPull({Key(parameter.name())}, {{mine}}, {data}, {.uncompressed = true});
}

void Trainer::ThrowNoKey(const char* what, const nn::Parameter& parameter) {
  throw Error(
      ErrorCode::kFailedPrecondition,
      parameter.deferred()
          ? StrCat(what, ": parameter ", parameter.name(), " has shape ", parameter.shape(),
                   " (0: unknown) and gets its values at the first forward: run one on every worker")
          : StrCat(what, ": parameter ", parameter.name(),
                   " has not come to the store, since the call that gave it its values has failed; make a "
                   "new Trainer"));
}

// Throws Error(kFailedPrecondition) after a failure in InitLate: later steps would never train the parameter.
void Trainer::RequireNoFailedForward() const {
  for (const Awaited& awaited : awaited_) {
    if (!awaited.parameter->deferred()) ThrowNoKey("a step", *awaited.parameter);
  }
}

void Trainer::RequireKeys(const char* what) const {
  if (!awaited_.empty()) ThrowNoKey(what, *awaited_.front().parameter);
}

}  // namespace sluice
