// What the bindings of sluice.KVStore call: a store with arguments of Python. Values of other libraries are
// copied before a push returns, unless the caller says otherwise, and are complete when a pull into them
// returns, since their owner has nothing to wait for.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/fork.h"
#include "call_arguments.h"
#include "sluice/kvstore.h"

namespace sluice::python {

// A call whose results are under way to other libraries' arrays.
class Pending {
 public:
  explicit Pending(std::vector<NDArray> arrays) : arrays_(std::move(arrays)) {}
  void Await() const { AwaitAll(arrays_); }
  bool IsDone() const;

 private:
  const std::vector<NDArray> arrays_;
};

// A store, what its keys are, and what its updater has thrown.
class Store {
 public:
  explicit Store(std::shared_ptr<KVStore> kv) : kv_(std::move(kv)) {}
  // Throws in a forked child, before anything of the store's is locked.
  const std::shared_ptr<KVStore>& kv() const {
    RequireNotForkedChild("a store cannot be used");
    return kv_;
  }

  void Init(nb::handle keys, nb::handle values);
  void Push(nb::handle keys, nb::handle values, const PushOptions& options, bool copy);
  nb::object Pull(nb::handle keys, nb::handle out, int priority, bool latest);
  nb::object PushPull(nb::handle keys, nb::handle values, nb::handle out, const PushOptions& options);
  Pending PullAsync(nb::handle keys, nb::handle out, int priority);
  Pending PushPullAsync(nb::handle keys, nb::handle values, const PushOptions& options);
  void Set(nb::handle keys, nb::handle values);
  void Broadcast(nb::handle keys, nb::handle values, nb::handle out);

  void InitRows(nb::handle key, const std::vector<int64_t>& shape, const std::string& dtype, nb::handle init);
  void PushRows(nb::handle key, nb::handle ids, nb::handle rows, const PushOptions& options);
  nb::object PullRows(nb::handle key, nb::handle ids, nb::handle out, int priority);
  Pending PullRowsAsync(nb::handle key, nb::handle ids, nb::handle out, int priority);
  NDArray RowIds(nb::handle key);
  void SetRows(nb::handle key, nb::handle ids, nb::handle rows);

  void SetUpdater(nb::object updater);

 private:
  struct Kind {
    Shape shape;
    DType dtype;
  };
  void NoteKinds(const Keys& keys, const std::vector<NDArray>& values);
  Kind KindOf(const Key& key) const;
  // Makes the outputs of a call without any.
  nb::object NewOutputs(nb::handle keys, const Keys& all) const;
  // Makes a call of the store without the GIL, and throws what the updater has thrown in it.
  template <typename Call>
  void WithoutGil(Call call);

  const std::shared_ptr<KVStore> kv_;
  std::unordered_map<Key, Kind> kinds_;
  struct Thrown {
    std::mutex mutex;
    std::exception_ptr error;
  };
  std::shared_ptr<Thrown> thrown_ = std::make_shared<Thrown>();
};

}  // namespace sluice::python
