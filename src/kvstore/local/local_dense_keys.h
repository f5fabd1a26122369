// LocalDenseKeys carries out the calls on the dense keys of a LocalStore.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collective/reducer.h"
#include "kvstore/local/local_context.h"
#include "kvstore/local/local_key_table.h"

namespace sluice::kvstore {

// The methods are those of KVStore. Each checks all its arguments before it changes anything.
//
// Thread safety: one thread at a time.
class LocalDenseKeys {
 public:
  using Values = KVStore::Values;

  LocalDenseKeys(LocalContext& context, const LocalSettings& settings, LocalKeyTable& keys,
                 std::unique_ptr<collective::Reducer> reducer)
      : context_(context), settings_(settings), keys_(keys), reducer_(std::move(reducer)) {}

  void Init(const std::vector<Key>& keys, const std::vector<NDArray>& values);
  void Push(const std::vector<Key>& keys, const std::vector<Values>& values, const PushOptions& options);
  void Pull(const std::vector<Key>& keys, const std::vector<Values>& outs);
  void PushPull(const std::vector<Key>& keys, const std::vector<Values>& values,
                const std::vector<Values>& outs, const PushOptions& options);
  void Set(const std::vector<Key>& keys, const std::vector<NDArray>& values);

 private:
  void RequireNew(const Entries& entries) const;
  void RequirePush(const std::string& what, const Entries& entries, const PushOptions& options);
  void RequirePull(const std::string& what, const Entries& entries);
  // PushAll and PullAll expect arguments that RequirePush and RequirePull have checked. With `pulled`, what
  // the call pulls after the push, by key as `entries`, PushAll returns what AddCopies does.
  std::vector<Values> PushAll(const Entries& entries, const PushOptions& options,
                              const Entries* pulled = nullptr);
  // Copies the weights to the arrays of `entries`, or only to those of `left`, by key, unless that is empty.
  void PullAll(const Entries& entries, const std::vector<Values>& left = {});
  void PushOne(const Key& key, const std::vector<NDArray>& values, const PushOptions& options);
  // Lets the call's updates write those of the arrays to be pulled that lie on the weight's card, too.
  // Returns the others, by key, or nothing at all if no update is on a card.
  std::vector<Values> AddCopies(const Entries& pulled);
  void PlaceByLoad(LocalKey& state, const std::vector<NDArray>& values);
  // Returns where several values of the key are added up.
  NDArray& MergedOf(LocalKey& state, const std::vector<NDArray>& values);
  // Returns the sum of `values` divided by 2^exponent. A single value is returned as it is.
  NDArray Merge(LocalKey& state, const std::vector<NDArray>& values, uint32_t exponent);
  // Returns what the update reads: the sum, which EnqueueAdded makes, or the values where the update adds
  // them up itself, on a card.
  InlineVector<NDArray, 1> GradientsOf(LocalKey& state, const std::vector<NDArray>& values,
                                       uint32_t exponent);
  void AddUpdate(LocalKey& state, const std::vector<NDArray>& values, uint32_t exponent,
                 const PushOptions& options);
  void EnqueueAdded();  // the call's sums and updates

  LocalContext& context_;
  const LocalSettings& settings_;
  LocalKeyTable& keys_;
  const std::unique_ptr<collective::Reducer> reducer_;
  // The call in progress:
  std::vector<collective::Reduction> sums_;
  std::vector<collective::Copies> copies_;
  std::vector<PendingUpdate> added_;  // updates
  std::vector<Label> added_names_;    // their names in messages
  std::vector<size_t> added_places_;  // the indices of their keys in the call
};

}  // namespace sluice::kvstore
