// The calls of a store with arguments of Python. A call converts its arguments with the GIL, and then makes
// the call of C++ without it. Invariant: memory of other libraries is copied before a push returns, or waited
// for after a pull. kvstore.cc binds the methods, which any thread of Python may call.
#include "store.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <utility>

#include "core.h"
#include "foreign.h"
#include "interrupts.h"
#include "options.h"
#include "tensor/access.h"

namespace sluice::python {

bool Pending::IsDone() const {
  return std::ranges::all_of(arrays_, [](const NDArray& array) { return ReadyToRead(array).Done(); });
}

template <typename Call>
void Store::WithoutGil(Call call) {
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

void Store::NoteKinds(const Keys& keys, const std::vector<NDArray>& values) {
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

void Store::Init(nb::handle keys, nb::handle values) {
  const Keys all = KeysOf(keys);
  const std::vector<NDArray> arrays = SinglesOf(keys, values, all.size());
  RunBlocking([kv = kv(), all, arrays] { kv->Init(all, arrays); });
  NoteKinds(all, arrays);
}

void Store::Push(nb::handle keys, nb::handle values, const PushOptions& options, bool copy) {
  const Keys all = KeysOf(keys);
  const Lists lists = InputsOf(keys, values, all.size(), copy);
  WithoutGil([&] { kv()->Push(all, lists, options); });
}

nb::object Store::Pull(nb::handle keys, nb::handle out, int priority, bool latest) {
  const Keys all = KeysOf(keys);
  const nb::object target = out.is_none() ? NewOutputs(keys, all) : nb::cast<nb::object>(out);
  const Outputs outputs = OutputsOf(keys, target, all.size());
  WithoutGil([&] {
    if (latest) return kv()->PullLatest(all, outputs.lists, priority);
    kv()->Pull(all, outputs.lists, priority);
  });
  AwaitAll(outputs.foreign);
  return target;
}

nb::object Store::PushPull(nb::handle keys, nb::handle values, nb::handle out, const PushOptions& options) {
  const Keys all = KeysOf(keys);
  if (out.is_none()) {  // in place
    const Outputs outputs = OutputsOf(keys, values, all.size());
    WithoutGil([&] { kv()->PushPull(all, outputs.lists, options); });
    AwaitAll(outputs.foreign);
    return nb::cast<nb::object>(values);
  }
  const Outputs outputs = OutputsOf(keys, out, all.size());
  // What is pushed may be another library's memory only until the call returns.
  const Lists lists = InputsOf(keys, values, all.size());
  WithoutGil([&] { kv()->PushPull(all, lists, outputs.lists, options); });
  AwaitAll(outputs.foreign);
  return nb::cast<nb::object>(out);
}

Pending Store::PullAsync(nb::handle keys, nb::handle out, int priority) {
  const Keys all = KeysOf(keys);
  Outputs outputs = OutputsOf(keys, out, all.size());
  WithoutGil([&] { kv()->Pull(all, outputs.lists, priority); });
  return Pending(std::move(outputs.foreign));
}

Pending Store::PushPullAsync(nb::handle keys, nb::handle values, const PushOptions& options) {
  const Keys all = KeysOf(keys);
  Outputs outputs = OutputsOf(keys, values, all.size());
  WithoutGil([&] { kv()->PushPull(all, outputs.lists, options); });
  return Pending(std::move(outputs.foreign));
}

void Store::Set(nb::handle keys, nb::handle values) {
  const Keys all = KeysOf(keys);
  const std::vector<NDArray> arrays = SinglesOf(keys, values, all.size());
  WithoutGil([&] { kv()->Set(all, arrays); });
}

void Store::Broadcast(nb::handle keys, nb::handle values, nb::handle out) {
  const Keys all = KeysOf(keys);
  const std::vector<NDArray> arrays = SinglesOf(keys, values, all.size());
  const Outputs outputs = OutputsOf(keys, out.is_none() ? values : out, all.size());
  RunBlocking([kv = kv(), all, arrays, lists = outputs.lists] { kv->Broadcast(all, arrays, lists); });
  NoteKinds(all, arrays);
  AwaitAll(outputs.foreign);
}

void Store::InitRows(nb::handle key, const std::vector<int64_t>& shape, const std::string& dtype,
                     nb::handle init) {
  const Kind kind{Shape(shape), DTypeOfName(dtype)};
  const RowInit begin = init.is_none() ? RowInit() : RowInitFrom(FieldsOf(init, "a sluice.RowInit"));
  RunBlocking([kv = kv(), name = KeyOf(key), kind, begin] {
    kv->InitRowSparse(name, kind.shape, kind.dtype, begin);
  });
  kinds_.insert_or_assign(KeyOf(key), kind);
}

void Store::PushRows(nb::handle key, nb::handle ids, nb::handle rows, const PushOptions& options) {
  const Key name = KeyOf(key);
  const RowSparse gradient{ArrayOf(ids, "the ids"), ArrayOf(rows, "the rows")};
  WithoutGil([&] { kv()->PushRowSparse(name, gradient, options); });
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
  WithoutGil([&] { kv()->RowSparsePull(name, wanted, &rows.array, priority); });
  if (rows.foreign) AwaitAll({rows.array});
  return target;
}

Pending Store::PullRowsAsync(nb::handle key, nb::handle ids, nb::handle out, int priority) {
  const Key name = KeyOf(key);
  const NDArray wanted = ArrayOf(ids, "the ids");
  Output rows = OutputOf(out, "the output");
  WithoutGil([&] { kv()->RowSparsePull(name, wanted, &rows.array, priority); });
  return Pending({rows.array});
}

NDArray Store::RowIds(nb::handle key) {
  const auto ids = std::make_shared<NDArray>();
  RunBlocking([kv = kv(), name = KeyOf(key), ids] { *ids = kv->RowSparseIds(name); });
  return *ids;
}

void Store::SetRows(nb::handle key, nb::handle ids, nb::handle rows) {
  const RowSparse values{ArrayOf(ids, "the ids"), ArrayOf(rows, "the rows")};
  RunBlocking([kv = kv(), name = KeyOf(key), values] { kv->SetRowSparse(name, values); });
}

void Store::SetUpdater(nb::object updater) {
  if (updater.is_none()) return WithoutGil([&] { kv()->SetUpdater({}); });
  // The store may let go of the updater on a thread without the GIL.
  const std::shared_ptr<nb::object> call(new nb::object(std::move(updater)), [](nb::object* object) {
    const nb::gil_scoped_acquire acquire;
    delete object;
  });
  WithoutGil([&] {
    kv()->SetUpdater([call, thrown = thrown_](const Key& key, const NDArray& gradient, NDArray& weight) {
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

}  // namespace sluice::python
