// sluice.KVStore: the names, defaults and documentation of a store's calls (store.h).
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core.h"
#include "interrupts.h"
#include "options.h"
#include "store.h"

namespace sluice::python {
namespace {

using namespace nb::literals;

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
          nb::sig("def pull(self, key: object, out: typing.Any = None, *, priority: int = 0) -> typing.Any"),
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
          nb::sig("def pull_latest(self, key: object, out: typing.Any = None, *, priority: int = 0) -> "
                  "typing.Any"),
          "key"_a.none(), "out"_a = nb::none(), nb::kw_only(), "priority"_a = 0,
          "Pulls the newest version whose round has closed, for clients that never push.");
}

void BindPushPull(nb::class_<Store>& store) {
  store
      .def(
          "pushpull",
          [](Store& s, nb::handle key, nb::handle value, nb::handle out, int priority, uint64_t samples,
             double divisor, bool uncompressed) {
            return s.PushPull(key, value, out, OptionsOf(priority, samples, divisor, uncompressed));
          },
          nb::sig("def pushpull(self, key: object, value: object, out: typing.Any = None, *, priority: int = "
                  "0, samples: int = 0, "
                  "divisor: float = 1.0, uncompressed: bool = False) -> typing.Any"),
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
      .def("pull_rows", &Store::PullRows,
           nb::sig("def pull_rows(self, key: object, ids: object, out: typing.Any = None, *, priority: int = "
                   "0) -> typing.Any"),
           "key"_a.none(), "ids"_a.none(), "out"_a = nb::none(), nb::kw_only(), "priority"_a = 0,
           "Pulls the rows `ids` of a table into `out`, or into a new NDArray, and returns it.")
      .def("pull_rows_async", &Store::PullRowsAsync, "key"_a.none(), "ids"_a.none(), "out"_a, nb::kw_only(),
           "priority"_a = 0,
           "Begins a pull of rows into an array of another library; the Pending that is returned waits for "
           "it.")
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
  BindPushPull(store);
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
