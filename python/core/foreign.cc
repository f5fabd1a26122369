// Invariant: a reference to another library's array is dropped with the GIL only. An NDArray that wraps such
// memory may go on any thread, so its owner puts the reference on a list (ReleaseLater), which ReleaseHeld
// empties.
#include "foreign.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <typeinfo>
#include <vector>

#include "base/fork.h"
#include "core.h"
#include "sluice/dtype.h"

namespace sluice::python {
namespace {

using Foreign = nb::ndarray<nb::ro>;

// References to be dropped by whoever next holds the GIL.
struct HeldList {
  std::mutex mutex;
  std::vector<std::unique_ptr<Foreign>> arrays;
  bool ended = false;  // Python ends: it takes no more calls, and the references are left
};
HeldList& Held() {
  static HeldList& list = *new HeldList;  // never destroyed: threads may use it at the end of the process
  return list;
}

int ReleaseWithGil(void*) {
  ReleaseHeld();
  return 0;
}

// Drops the reference at the next call with the GIL; runs on any thread.
void ReleaseLater(Foreign* array) {
  const std::lock_guard lock(Held().mutex);
  Held().arrays.emplace_back(array);
  // It may fail, when too many are pending; the next call releases.
  if (!Held().ended) Py_AddPendingCall(&ReleaseWithGil, nullptr);
}

std::string TypeName(nb::handle object) {
  return nb::cast<std::string>(nb::str(object.type().attr("__name__")));
}

std::string TextOf(nb::dlpack::dtype dtype) {
  const char* const kinds[] = {"int", "uint", "float", "", "bfloat", "complex", "bool"};
  const std::string kind = dtype.code < std::size(kinds) ? kinds[dtype.code] : "type";
  return kind == "bool" ? kind : kind + std::to_string(dtype.bits);
}

// Which types there are, for messages.
std::string DTypesText() {
  std::string text = "an NDArray has one of ";
  for (const DType dtype : kAllDTypes)
    text += (dtype == kAllDTypes[0] ? "" : ", ") + std::string(Name(dtype));
  return text;
}

DType DTypeOfForeign(const Foreign& array, const char* what) {
  for (const DType dtype : kAllDTypes) {
    if (DLPackTypeOf(dtype) == array.dtype()) return dtype;
  }
  ThrowInvalid(std::string(what) + " is an array of " + TextOf(array.dtype()) + "; " + DTypesText());
}

Shape ShapeOf(const Foreign& array) {
  return Shape(std::span<const int64_t>(array.shape_ptr(), array.ndim()));
}

// Whether the elements lie side by side in row-major order; those of an array without any do.
bool IsRowMajor(const Foreign& array) {
  if (array.size() == 0) return true;
  int64_t expected = 1;
  for (size_t axis = array.ndim(); axis-- > 0;) {
    if (array.shape(axis) != 1 && array.stride(axis) != expected) return false;
    expected *= static_cast<int64_t>(array.shape(axis));
  }
  return true;
}

std::string StridesOf(const Foreign& array) {
  std::string text = "(";
  for (size_t axis = 0; axis < array.ndim(); ++axis)
    text +=
        (axis == 0 ? "" : ", ") + std::to_string(array.stride(axis) * static_cast<int64_t>(array.itemsize()));
  return text + ")";
}

// Copies the elements from axis `axis` on to `to`, row-major; returns the place behind them.
std::byte* Gather(const Foreign& array, size_t axis, const std::byte* from, std::byte* to) {
  if (axis == array.ndim()) {
    std::memcpy(to, from, array.itemsize());
    return to + array.itemsize();
  }
  const auto step = array.stride(axis) * static_cast<int64_t>(array.itemsize());
  for (size_t i = 0; i < array.shape(axis); ++i)
    to = Gather(array, axis + 1, from + static_cast<int64_t>(i) * step, to);
  return to;
}

NDArray CopyOf(const Foreign& array, DType dtype, const Shape& shape, Context context) {
  NDArray copy = NDArray::Empty(shape, context, dtype);
  const auto* data = static_cast<const std::byte*>(array.data());
  std::vector<std::byte> gathered;
  if (!IsRowMajor(array) && array.size() > 0) {
    gathered.resize(array.nbytes());
    Gather(array, 0, data, gathered.data());
    data = gathered.data();
  }
  const nb::gil_scoped_release release;
  copy.SetBytes({data, array.nbytes()});
  return copy;
}

NDArray Wrapped(Foreign array, DType dtype, const Shape& shape, Context context) {
  void* const data = const_cast<void*>(static_cast<const void*>(array.data()));
  std::shared_ptr<const void> owner(new Foreign(std::move(array)), &ReleaseLater);
  return NDArray::Wrap(data, shape, std::move(owner), dtype, context);
}

// Sets `array` to the memory of `object`; returns whether it has memory of that kind.
template <typename Array>
bool TryImport(nb::handle object, Array& array) {
  try {
    if (nb::try_cast(object, array, false)) return true;
  } catch (const std::bad_cast&) {  // nanobind throws it where an object refuses
  }
  PyErr_Clear();
  return false;
}

Foreign ForeignOf(nb::handle object, const char* what) {
  Foreign array;
  bool is_array = TryImport(object, array);
  // PyTorch shares no memory of a tensor that records gradients.
  if (!is_array && nb::hasattr(object, "detach")) is_array = TryImport(object.attr("detach")(), array);
  if (!is_array) {
    ThrowInvalid(std::string(what) + " is of type '" + TypeName(object) +
                 "', which is no array; sluice.array() and numpy.asarray() make one");
  }
  if (array.device_type() != nb::device::cpu::value)
    ThrowInvalid(std::string(what) + " is not in host memory; copy it to the CPU first, such as by .cpu()");
  return array;
}

bool IsAligned(const Foreign& array) {
  return array.itemsize() == 0 || reinterpret_cast<uintptr_t>(array.data()) % array.itemsize() == 0;
}

}  // namespace

nb::dlpack::dtype DLPackTypeOf(DType dtype) {
  const DLPackType type = ToDLPack(dtype);
  return {type.code, type.bits, 1};
}

DType DTypeOfName(std::string_view name) {
  if (const auto dtype = DTypeFromName(name)) return *dtype;
  ThrowInvalid("there is no dtype '" + std::string(name) + "'; " + DTypesText());
}

NDArray ArrayOf(nb::handle object, const char* what, bool copy, Context context) {
  NDArray* own = nullptr;
  if (nb::try_cast(object, own, false) && own != nullptr) return *own;
  Foreign array = ForeignOf(object, what);
  const DType dtype = DTypeOfForeign(array, what);
  const Shape shape = ShapeOf(array);
  if (copy || !IsRowMajor(array) || !IsAligned(array)) return CopyOf(array, dtype, shape, context);
  return Wrapped(std::move(array), dtype, shape, context);
}

Output OutputOf(nb::handle object, const char* what) {
  NDArray* own = nullptr;
  if (nb::try_cast(object, own, false) && own != nullptr) return {*own, false};
  Foreign array = ForeignOf(object, what);
  nb::ndarray<> writable;
  if (!TryImport(object, writable))
    ThrowInvalid(std::string(what) + " may not be written: it is a read-only '" + TypeName(object) + "'");
  if (!IsRowMajor(array)) {
    ThrowInvalid(
        std::string(what) + " has strides " + StridesOf(array) +
        " (bytes), and a result is written to elements that lie side by side; give a C-contiguous array");
  }
  if (!IsAligned(array))
    ThrowInvalid(std::string(what) + " is not aligned to its elements; give a copy of it");
  const DType dtype = DTypeOfForeign(array, what);
  const Shape shape = ShapeOf(array);
  return {Wrapped(std::move(array), dtype, shape, cpu(0)), true};
}

void ReleaseHeld() {
  if (InForkedChild()) return;  // a thread that is not there may have the lock
  std::vector<std::unique_ptr<Foreign>> arrays;
  const std::lock_guard lock(Held().mutex);
  arrays.swap(Held().arrays);
}

void LeaveHeld() {
  if (InForkedChild()) return;
  const std::lock_guard lock(Held().mutex);
  Held().ended = true;
}

}  // namespace sluice::python
