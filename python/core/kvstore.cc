// sluice.KVStore: the stores of sluice/kvstore.h. A call takes a key with its value or values, or a list of keys
// with a value or a list of values each. Values of other libraries are copied before a push returns, unless the
// caller says otherwise, and are complete when a pull into them returns, since their owner has nothing to wait for.
#include "sluice/kvstore.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core.h"
#include "foreign.h"
#include "interrupts.h"
#include "options.h"
#include "tensor/access.h"

namespace sluice::python {
namespace {

using namespace nb::literals;

using Keys = std::vector<Key>;
using Lists = std::vector<std::vector<NDArray>>;

[[noreturn]] void ThrowInvalid(const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, why);
}

bool IsList(nb::handle object) {
  return nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object);
}

Key KeyOf(nb::handle key) {
  if (nb::isinstance<nb::str>(key)) return nb::cast<std::string>(key);
  if (nb::isinstance<nb::int_>(key) && !nb::isinstance<nb::bool_>(key)) {
    int64_t number = 0;
    if (nb::try_cast(key, number, false)) return number;
  }
  ThrowInvalid("a key is " + nb::cast<std::string>(nb::repr(key)) +
               "; a key is a text or a number of at most 63 bits");
}

Keys KeysOf(nb::handle keys) {
  if (!IsList(keys)) return {KeyOf(keys)};
  Keys all;
  for (const nb::handle key : keys) all.push_back(KeyOf(key));
  return all;
}

// The values of a call's keys: of one key, or one entry for each key of a list.
std::vector<nb::object> EntriesOf(nb::handle keys, nb::handle values, size_t count) {
  if (!IsList(keys)) return {nb::cast<nb::object>(values)};
  if (!IsList(values)) ThrowInvalid("with a list of keys, values are a list as well: one entry for each key");
  std::vector<nb::object> entries;
  for (const nb::handle value : values) entries.push_back(nb::cast<nb::object>(value));
  if (entries.size() != count)
    ThrowInvalid("there are " + std::to_string(count) + " keys and " + std::to_string(entries.size()) +
                 " values");
  return entries;
}

Lists InputsOf(nb::handle keys, nb::handle values, size_t count, bool copy) {
  Lists lists;
  for (const nb::object& entry : EntriesOf(keys, values, count)) {
    std::vector<NDArray>& arrays = lists.emplace_back();
    if (!IsList(entry)) {
      arrays.push_back(ArrayOf(entry, "the value", copy));
      continue;
    }
    for (const nb::handle value : entry) arrays.push_back(ArrayOf(value, "the value", copy));
  }
  return lists;
}

// Where a call's results go, and which of these arrays have to be complete when it returns.
struct Outputs {
  Lists lists;
  std::vector<NDArray> foreign;
  void Add(nb::handle object) {
    Output out = OutputOf(object, "the output");
    if (out.foreign) foreign.push_back(out.array);
    lists.back().push_back(std::move(out.array));
  }
  void Await() const {
    for (const NDArray& array : foreign) Wait(ReadyToRead(array));
  }
};

Outputs OutputsOf(nb::handle keys, nb::handle values, size_t count) {
  Outputs outputs;
  for (const nb::object& entry : EntriesOf(keys, values, count)) {
    outputs.lists.emplace_back();
    if (!IsList(entry)) {
      outputs.Add(entry);
      continue;
    }
    for (const nb::handle value : entry) outputs.Add(value);
  }
  return outputs;
}

std::chrono::milliseconds TimeoutOf(std::optional<double> seconds) {
  if (!seconds) return KVStore::kDefaultTimeout;
  if (!(*seconds > 0)) ThrowInvalid("a timeout is " + std::to_string(*seconds) + " s; it must be above 0");
  if (*seconds > 1e9) return KVStore::kNoTimeout;
  return std::chrono::milliseconds(std::max<int64_t>(1, static_cast<int64_t>(*seconds * 1000)));
}

BarrierGroup GroupOf(const std::string& name) {
  if (name == "workers") return BarrierGroup::kWorkers;
  if (name == "servers") return BarrierGroup::kServers;
  if (name == "all") return BarrierGroup::kAll;
  ThrowInvalid("a barrier's group is '" + name + "'; it is one of workers, servers, all, or a list of ranks");
}

// The fields of one of the dataclasses of sluice/optim.py.
nb::dict FieldsOf(nb::handle options, const char* wanted) {
  if (!nb::hasattr(options, "_config"))
    throw nb::type_error(
        ("the argument is " + nb::cast<std::string>(nb::repr(options)) + "; it has to be " + wanted).c_str());
  return nb::cast<nb::dict>(options.attr("_config")());
}

// A call whose results are under way to other libraries' arrays.
class Pending {
 public:
  explicit Pending(std::vector<NDArray> arrays) : arrays_(std::move(arrays)) {}
  void Await() const {
    for (const NDArray& array : arrays_) Wait(ReadyToRead(array));
  }
  bool IsDone() const {
    return std::ranges::all_of(arrays_, [](const NDArray& array) { return ReadyToRead(array).Done(); });
  }

 private:
  const std::vector<NDArray> arrays_;
};

// A store, what its keys are, and what its updater has thrown.
class Store {
 public:
  explicit Store(std::shared_ptr<KVStore> kv) : kv_(std::move(kv)) {}
  const std::shared_ptr<KVStore>& kv() const { return kv_; }

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
  NDArray RowIds(nb::handle key);
  void SetRows(nb::handle key, nb::handle ids, nb::handle rows);

  void SetUpdater(nb::object updater);

 private:
  struct Kind {
    Shape shape;
    DType dtype;
  };
  void Know(const Keys& keys, const std::vector<NDArray>& values);
  Kind KindOf(const Key& key) const;
  // Makes the outputs of a call without any.
  nb::object NewOutputs(nb::handle keys, const Keys& all) const;
  // Makes a call of the store without the GIL, and throws what the updater has thrown in it.
  template <typename Call>
  void Do(Call call);

  const std::shared_ptr<KVStore> kv_;
  std::unordered_map<Key, Kind> kinds_;
  struct Thrown {
    std::mutex mutex;
    std::exception_ptr error;
  };
  std::shared_ptr<Thrown> thrown_ = std::make_shared<Thrown>();
};

template <typename Call>
void Store::Do(Call call) {
  ReleaseHeld();
  try {
    const nb::gil_scoped_release release;
    call();
  } catch (const Error&) {
    std::exception_ptr error;
    {
      const std::lock_guard lock(thrown_->mutex);
      error.swap(thrown_->error);
    }
    if (error) std::rethrow_exception(error);
    throw;
  }
}

void Store::Know(const Keys& keys, const std::vector<NDArray>& values) {
  for (size_t i = 0; i < keys.size(); ++i)
    kinds_.insert_or_assign(keys[i], Kind{values[i].shape(), values[i].dtype()});
}

Store::Kind Store::KindOf(const Key& key) const {
  const auto found = kinds_.find(key);
  if (found == kinds_.end()) {
    throw Error(ErrorCode::kNotFound,
                "key " + ToString(key) + " was not made by this store's init; pull it into an array (out=)");
  }
  return found->second;
}

nb::object Store::NewOutputs(nb::handle keys, const Keys& all) const {
  nb::list made;
  for (const Key& key : all) {
    const Kind kind = KindOf(key);
    made.append(nb::cast(NDArray::Empty(kind.shape, cpu(0), kind.dtype)));
  }
  return IsList(keys) ? nb::object(made) : nb::object(made[0]);
}

// The first of each key's values; the call takes one for each.
std::vector<NDArray> SinglesOf(const Lists& lists) {
  std::vector<NDArray> values;
  for (const std::vector<NDArray>& arrays : lists) {
    if (arrays.size() != 1)
      ThrowInvalid("this call takes one value for each key, not " + std::to_string(arrays.size()));
    values.push_back(arrays[0]);
  }
  return values;
}

void Store::Init(nb::handle keys, nb::handle values) {
  const Keys all = KeysOf(keys);
  const std::vector<NDArray> arrays = SinglesOf(InputsOf(keys, values, all.size(), true));
  RunBlocking([kv = kv_, all, arrays] { kv->Init(all, arrays); });
  Know(all, arrays);
}

void Store::Push(nb::handle keys, nb::handle values, const PushOptions& options, bool copy) {
  const Keys all = KeysOf(keys);
  const Lists lists = InputsOf(keys, values, all.size(), copy);
  Do([&] { kv_->Push(all, lists, options); });
}

nb::object Store::Pull(nb::handle keys, nb::handle out, int priority, bool latest) {
  const Keys all = KeysOf(keys);
  const nb::object target = out.is_none() ? NewOutputs(keys, all) : nb::cast<nb::object>(out);
  const Outputs outputs = OutputsOf(keys, target, all.size());
  Do([&] {
    if (latest) return kv_->PullLatest(all, outputs.lists, priority);
    kv_->Pull(all, outputs.lists, priority);
  });
  outputs.Await();
  return target;
}

nb::object Store::PushPull(nb::handle keys, nb::handle values, nb::handle out, const PushOptions& options) {
  const Keys all = KeysOf(keys);
  if (out.is_none()) {  // in place
    const Outputs outputs = OutputsOf(keys, values, all.size());
    Do([&] { kv_->PushPull(all, outputs.lists, options); });
    outputs.Await();
    return nb::cast<nb::object>(values);
  }
  const Outputs outputs = OutputsOf(keys, out, all.size());
  // What is pushed may be another library's memory only until the call returns.
  const Lists lists = InputsOf(keys, values, all.size(), true);
  Do([&] { kv_->PushPull(all, lists, outputs.lists, options); });
  outputs.Await();
  return nb::cast<nb::object>(out);
}

Pending Store::PullAsync(nb::handle keys, nb::handle out, int priority) {
  const Keys all = KeysOf(keys);
  Outputs outputs = OutputsOf(keys, out, all.size());
  Do([&] { kv_->Pull(all, outputs.lists, priority); });
  return Pending(std::move(outputs.foreign));
}

Pending Store::PushPullAsync(nb::handle keys, nb::handle values, const PushOptions& options) {
  const Keys all = KeysOf(keys);
  Outputs outputs = OutputsOf(keys, values, all.size());
  Do([&] { kv_->PushPull(all, outputs.lists, options); });
  return Pending(std::move(outputs.foreign));
}

void Store::Set(nb::handle keys, nb::handle values) {
  const Keys all = KeysOf(keys);
  const std::vector<NDArray> arrays = SinglesOf(InputsOf(keys, values, all.size(), true));
  Do([&] { kv_->Set(all, arrays); });
}

void Store::Broadcast(nb::handle keys, nb::handle values, nb::handle out) {
  const Keys all = KeysOf(keys);
  const std::vector<NDArray> arrays = SinglesOf(InputsOf(keys, values, all.size(), true));
  const Outputs outputs = OutputsOf(keys, out.is_none() ? values : out, all.size());
  RunBlocking([kv = kv_, all, arrays, lists = outputs.lists] { kv->Broadcast(all, arrays, lists); });
  Know(all, arrays);
  outputs.Await();
}

void Store::InitRows(nb::handle key, const std::vector<int64_t>& shape, const std::string& dtype,
                     nb::handle init) {
  const Kind kind{Shape(shape), DTypeOfName(dtype)};
  const RowInit begin = init.is_none() ? RowInit() : RowInitFrom(FieldsOf(init, "a sluice.RowInit"));
  RunBlocking(
      [kv = kv_, name = KeyOf(key), kind, begin] { kv->InitRowSparse(name, kind.shape, kind.dtype, begin); });
  kinds_.insert_or_assign(KeyOf(key), kind);
}

void Store::PushRows(nb::handle key, nb::handle ids, nb::handle rows, const PushOptions& options) {
  const Key name = KeyOf(key);
  const RowSparse gradient{ArrayOf(ids, "the ids"), ArrayOf(rows, "the rows")};
  Do([&] { kv_->PushRowSparse(name, gradient, options); });
}

nb::object Store::PullRows(nb::handle key, nb::handle ids, nb::handle out, int priority) {
  const Key name = KeyOf(key);
  const NDArray wanted = ArrayOf(ids, "the ids");
  nb::object target = nb::cast<nb::object>(out);
  if (out.is_none()) {
    const Kind kind = KindOf(name);
    std::vector<int64_t> extents(wanted.shape().dims().begin(), wanted.shape().dims().end());
    for (size_t axis = 1; axis < kind.shape.ndim(); ++axis) extents.push_back(kind.shape[axis]);
    target = nb::cast(NDArray::Empty(Shape(extents), cpu(0), kind.dtype));
  }
  Output rows = OutputOf(target, "the output");
  Do([&] { kv_->RowSparsePull(name, wanted, &rows.array, priority); });
  if (rows.foreign) Wait(ReadyToRead(rows.array));
  return target;
}

NDArray Store::RowIds(nb::handle key) {
  const auto ids = std::make_shared<NDArray>();
  RunBlocking([kv = kv_, name = KeyOf(key), ids] { *ids = kv->RowSparseIds(name); });
  return *ids;
}

void Store::SetRows(nb::handle key, nb::handle ids, nb::handle rows) {
  const RowSparse values{ArrayOf(ids, "the ids"), ArrayOf(rows, "the rows")};
  RunBlocking([kv = kv_, name = KeyOf(key), values] { kv->SetRowSparse(name, values); });
}

void Store::SetUpdater(nb::object updater) {
  if (updater.is_none()) return Do([&] { kv_->SetUpdater({}); });
  // The store may let go of the updater on a thread without the GIL.
  const std::shared_ptr<nb::object> call(new nb::object(std::move(updater)), [](nb::object* object) {
    const nb::gil_scoped_acquire acquire;
    delete object;
  });
  Do([&] {
    kv_->SetUpdater([call, thrown = thrown_](const Key& key, const NDArray& gradient, NDArray& weight) {
      const nb::gil_scoped_acquire acquire;
      try {
        const nb::object name = std::visit([](const auto& value) { return nb::cast(value); },
                                           static_cast<const Key::Variant&>(key));
        (*call)(name, nb::cast(gradient), nb::cast(weight));
      } catch (nb::python_error& error) {
        const std::lock_guard lock(thrown->mutex);
        thrown->error = std::current_exception();
        throw Error(ErrorCode::kInvalidArgument, error.what());
      }
    });
  });
}

PushOptions OptionsOf(int priority, uint64_t samples, double divisor, bool uncompressed) {
  return {.priority = priority, .samples = samples, .divisor = divisor, .uncompressed = uncompressed};
}

void BindDense(nb::class_<Store>& store) {
  store
      .def("init", &Store::Init, "key"_a.none(), "value"_a.none(),
           "Creates keys, all of them or none. On dist stores rank 0's value counts, and the call waits for "
           "the servers.")
      .def(
          "push",
          [](Store& s, nb::handle key, nb::handle value, int priority, uint64_t samples, double divisor,
             bool uncompressed,
             bool copy) { s.Push(key, value, OptionsOf(priority, samples, divisor, uncompressed), copy); },
          "key"_a.none(), "value"_a.none(), nb::kw_only(), "priority"_a = 0, "samples"_a = 0,
          "divisor"_a = 1.0, "uncompressed"_a = false, "copy"_a = true,
          "Pushes gradients and returns at once. Values of other libraries are copied first; with copy=False "
          "they must "
          "not be written before a later pull of the key has returned.")
      .def(
          "pull",
          [](Store& s, nb::handle key, nb::handle out, int priority) {
            return s.Pull(key, out, priority, false);
          },
          "key"_a.none(), "out"_a = nb::none(), nb::kw_only(), "priority"_a = 0,
          "Pulls the value of the round that this worker has pushed last into `out`, or into new NDArrays, "
          "and returns "
          "them. NDArrays are complete when they are first used, arrays of other libraries when the call "
          "returns.")
      .def(
          "pull_latest",
          [](Store& s, nb::handle key, nb::handle out, int priority) {
            return s.Pull(key, out, priority, true);
          },
          "key"_a.none(), "out"_a = nb::none(), nb::kw_only(), "priority"_a = 0,
          "Pulls the newest version whose round has closed, for clients that never push.")
      .def(
          "pushpull",
          [](Store& s, nb::handle key, nb::handle value, nb::handle out, int priority, uint64_t samples,
             double divisor, bool uncompressed) {
            return s.PushPull(key, value, out, OptionsOf(priority, samples, divisor, uncompressed));
          },
          "key"_a.none(), "value"_a.none(), "out"_a = nb::none(), nb::kw_only(), "priority"_a = 0,
          "samples"_a = 0, "divisor"_a = 1.0, "uncompressed"_a = false,
          "Pushes `value`, then pulls the result of the round into `out`, or into `value` itself.")
      .def(
          "pull_async",
          [](Store& s, nb::handle key, nb::handle out, int priority) {
            return s.PullAsync(key, out, priority);
          },
          "key"_a.none(), "out"_a, nb::kw_only(), "priority"_a = 0,
          "Begins a pull into arrays of other libraries; the Pending that is returned waits for it.")
      .def(
          "pushpull_async",
          [](Store& s, nb::handle key, nb::handle value, int priority, uint64_t samples, double divisor,
             bool uncompressed) {
            return s.PushPullAsync(key, value, OptionsOf(priority, samples, divisor, uncompressed));
          },
          "key"_a.none(), "value"_a.none(), nb::kw_only(), "priority"_a = 0, "samples"_a = 0,
          "divisor"_a = 1.0, "uncompressed"_a = false,
          "Begins to push `value` and to pull the result of the round into it. Until wait() of the Pending "
          "that is "
          "returned has come back, `value` must be neither written nor read.")
      .def("set", &Store::Set, "key"_a.none(), "value"_a.none(),
           "Overwrites values outside of any round. On dist stores rank 0's value counts.")
      .def("broadcast", &Store::Broadcast, "key"_a.none(), "value"_a.none(), "out"_a = nb::none(),
           "Creates keys, and pulls rank 0's values into `out`, or into `value` itself.");
}

void BindRows(nb::class_<Store>& store) {
  store
      .def("init_rows", &Store::InitRows, "key"_a.none(), "shape"_a, "dtype"_a = "float32",
           "init"_a = nb::none(),
           "Creates a row-sparse table of shape (rows, ...), whose rows begin as a RowInit says, or with "
           "zeros. All workers "
           "call it with the same arguments.")
      .def(
          "push_rows",
          [](Store& s, nb::handle key, nb::handle ids, nb::handle rows, int priority, uint64_t samples,
             double divisor) { s.PushRows(key, ids, rows, OptionsOf(priority, samples, divisor, false)); },
          "key"_a.none(), "ids"_a.none(), "rows"_a.none(), nb::kw_only(), "priority"_a = 0, "samples"_a = 0,
          "divisor"_a = 1.0,
          "Pushes the gradients rows[i] of the rows ids[i] of a table. Every worker pushes in a round, if "
          "need be no ids.")
      .def("pull_rows", &Store::PullRows, "key"_a.none(), "ids"_a.none(), "out"_a = nb::none(), nb::kw_only(),
           "priority"_a = 0,
           "Pulls the rows `ids` of a table into `out`, or into a new NDArray, and returns it.")
      .def("row_ids", &Store::RowIds, "key"_a.none(),
           "Returns the ids of all rows that were pushed or set, ascending.")
      .def("set_rows", &Store::SetRows, "key"_a.none(), "ids"_a.none(), "rows"_a.none(),
           "Overwrites rows outside of any round and waits until that is done.");
}

void BindOptions(nb::class_<Store>& store) {
  store
      .def(
          "set_optimizer",
          [](Store& s, nb::handle optimizer) {
            RunBlocking([kv = s.kv(),
                         config = OptimizerFrom(FieldsOf(optimizer, "an optimizer, such as sluice.SGD"))] {
              kv->SetOptimizer(config);
            });
          },
          "optimizer"_a.none(),
          "From this call on the store updates its weights. On dist stores rank 0's call counts.")
      .def(
          "set_compression",
          [](Store& s, nb::handle compression) {
            const nb::dict fields =
                compression.is_none() ? nb::dict() : FieldsOf(compression, "a sluice.Compression");
            RunBlocking(
                [kv = s.kv(), config = CompressionFrom(fields)] { kv->SetGradientCompression(config); });
          },
          "compression"_a.none(), "Sets how later pushes send gradients; None sends them as they are.")
      .def("set_updater", &Store::SetUpdater, "updater"_a.none(),
           "Sets updater(key, gradient, weight), which changes `weight` in place; None removes it. Dist "
           "stores have none.")
      .def(
          "save_states",
          [](Store& s, const std::string& path) {
            RunBlocking([kv = s.kv(), path] { kv->SaveOptimizerStates(path); });
          },
          "path"_a, "Writes the optimizer's states as a safetensors file.")
      .def(
          "load_states",
          [](Store& s, const std::string& path) {
            RunBlocking([kv = s.kv(), path] { kv->LoadOptimizerStates(path); });
          },
          "path"_a)
      .def(
          "num_updates",
          [](Store& s, nb::handle key) {
            const auto number = std::make_shared<uint64_t>(0);
            RunBlocking([kv = s.kv(), name = KeyOf(key), number] { *number = kv->NumUpdates(name); });
            return *number;
          },
          "key"_a.none(), "Returns how many updates the optimizer of a key has made.")
      .def(
          "set_timeout",
          [](Store& s, std::optional<double> seconds) {
            s.kv()->SetTimeout(seconds ? TimeoutOf(seconds) : KVStore::kNoTimeout);
          },
          "seconds"_a.none(),
          "Sets how long later calls wait for other processes; None: as long as these are alive.");
}

void BindMeeting(nb::class_<Store>& store) {
  store
      .def(
          "wait_all",
          [](Store& s, std::optional<double> timeout) {
            RunBlocking([kv = s.kv(), limit = TimeoutOf(timeout)] { kv->WaitAll(limit); });
          },
          "timeout"_a = nb::none(),
          "Waits until all operations issued so far are done; throws the first failure.")
      .def(
          "barrier",
          [](Store& s, nb::handle group, std::optional<double> timeout) {
            const auto limit = TimeoutOf(timeout);
            if (nb::isinstance<nb::str>(group)) {
              RunBlocking([kv = s.kv(), members = GroupOf(nb::cast<std::string>(group)), limit] {
                kv->Barrier(members, limit);
              });
            } else {
              RunBlocking([kv = s.kv(), ranks = nb::cast<std::vector<int>>(group), limit] {
                kv->Barrier(ranks, limit);
              });
            }
          },
          "group"_a = "workers", "timeout"_a = nb::none(),
          "Waits until every member of the group, or each of a list of ranks, has called barrier as often as "
          "this worker.")
      .def(
          "agree",
          [](Store& s, const std::string& word, std::optional<double> timeout) {
            const auto agreed = std::make_shared<std::string>();
            RunBlocking([kv = s.kv(), word, limit = TimeoutOf(timeout), agreed] {
              *agreed = kv->Agree(word, limit);
            });
            return *agreed;
          },
          "word"_a, "timeout"_a = nb::none(), "A barrier that returns rank 0's text to all workers.")
      .def(
          "num_dead_nodes",
          [](Store& s) {
            const nb::gil_scoped_release release;
            return s.kv()->NumDeadNodes();
          },
          "Returns how many processes of the job were found dead so far.")
      .def_prop_ro("type", [](const Store& s) { return s.kv()->type(); })
      .def_prop_ro("rank", [](const Store& s) { return s.kv()->rank(); })
      .def_prop_ro("num_workers", [](const Store& s) { return s.kv()->num_workers(); });
}

}  // namespace

void BindStores(nb::module_& module) {
  nb::class_<Pending>(module, "Pending", "A call on arrays of other libraries that is under way.")
      .def("wait", &Pending::Await, "Waits until the arrays are complete; throws the call's failure.")
      .def("done", &Pending::IsDone, "Returns whether the call has ended, with success or without.");
  nb::class_<Store> store(module, "KVStore");
  BindDense(store);
  BindRows(store);
  BindOptions(store);
  BindMeeting(store);
  module.def("create", [](const std::string& type) {
    const auto kv = std::make_shared<std::shared_ptr<KVStore>>();
    RunBlocking([kv, type] { *kv = KVStore::Create(type); });
    return Store(*kv);
  });
}

}  // namespace sluice::python
