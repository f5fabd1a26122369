// sluice.Context and sluice.NDArray: the arrays of sluice/ndarray.h with the names that users of MXNet and
// NumPy know. Operations return at once, as in C++; whatever shows values waits.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <sstream>
#include <string>
#include <vector>

#include "base/fork.h"
#include "core.h"
#include "foreign.h"
#include "interrupts.h"
#include "sluice/context.h"
#include "sluice/ndarray.h"
#include "tensor/access.h"

namespace sluice::python {
namespace {

using namespace nb::literals;

Shape ShapeFrom(nb::handle shape) {
  if (nb::isinstance<nb::int_>(shape)) return Shape({nb::cast<int64_t>(shape)});
  return Shape(nb::cast<std::vector<int64_t>>(shape));
}

nb::tuple TupleOf(const Shape& shape) {
  nb::list extents;
  for (const int64_t extent : shape.dims()) extents.append(extent);
  return nb::tuple(extents);
}

void WaitForUses(const NDArray& array) {
  for (const Event& use : PendingUses(array)) Wait(use);
  Wait(ReadyToRead(array));
}

// Returns an array of another library on the array's own memory, which it keeps alive.
template <typename... Kind>
nb::object AsForeign(NDArray array, void* data) {
  const std::vector<size_t> extents(array.shape().dims().begin(), array.shape().dims().end());
  const DType dtype = array.dtype();
  auto* const kept = new NDArray(std::move(array));
  const nb::capsule owner(kept, [](void* handle) noexcept { delete static_cast<NDArray*>(handle); });
  return nb::cast(nb::ndarray<Kind...>(data, extents.size(), extents.data(), owner, nullptr,
                                       DLPackTypeOf(dtype), nb::device::cpu::value),
                  nb::rv_policy::reference);
}

void* ExportOf(NDArray& array, const char* call) {
  if (!OnHost(array)) {
    std::ostringstream why;
    why << call << ": the array is on " << array.context()
        << "; as_in_context(sluice.cpu()) brings it to the host";
    throw Error(ErrorCode::kInvalidArgument, why.str());
  }
  WaitForUses(array);
  return Export(array).data();
}

void RefuseBFloat16(const NDArray& array, const char* call) {
  if (array.dtype() == DType::kBFloat16) {
    throw Error(
        ErrorCode::kUnimplemented,
        std::string(call) + ": NumPy has no bfloat16; astype(\"float32\") gives an array that it can show");
  }
}

nb::object ViewOf(NDArray& array, bool writable) {
  RefuseBFloat16(array, "view");
  void* const data = ExportOf(array, "view");
  return writable ? AsForeign<nb::numpy>(array, data) : AsForeign<nb::numpy, nb::ro>(array, data);
}

nb::object AsNumpy(const NDArray& array) {
  RefuseBFloat16(array, "asnumpy");
  Wait(ReadyToRead(array));
  if (InForkedChild()) {  // which cannot make an array of Sluice
    NDArray here = array;
    return ViewOf(here, false).attr("copy")();
  }
  NDArray copy = NDArray::Empty(array.shape(), cpu(0), array.dtype());
  array.CopyTo(&copy);
  Wait(ReadyToRead(copy));
  return AsForeign<nb::numpy>(copy, Export(copy).data());
}

nb::object DLPack(NDArray& array, const nb::kwargs& arguments) {
  return AsForeign<nb::array_api>(array, ExportOf(array, "__dlpack__")).attr("__dlpack__")(**arguments);
}

// Returns [begin, end) of the first axis for an index or a slice without a step.
std::pair<int64_t, int64_t> RowsOf(const NDArray& array, nb::handle index) {
  if (array.shape().ndim() == 0) throw nb::index_error("an array without axes has no rows");
  const int64_t rows = array.shape()[0];
  if (nb::isinstance<nb::slice>(index)) {
    const auto [begin, end, step, count] = nb::cast<nb::slice>(index).compute(static_cast<size_t>(rows));
    if (step != 1)
      throw nb::index_error("a slice of an NDArray has no step; NumPy slices what numpy.asarray() shows");
    return {begin, begin + static_cast<int64_t>(count)};
  }
  if (!nb::isinstance<nb::int_>(index))
    throw nb::index_error("an NDArray takes one number or one slice of its first axis as index");
  int64_t row = nb::cast<int64_t>(index);
  if (row < 0) row += rows;
  if (row < 0 || row >= rows) {
    throw nb::index_error(("row " + nb::cast<std::string>(nb::str(index)) + " of an array with " +
                           std::to_string(rows) + " rows")
                              .c_str());
  }
  return {row, row + 1};
}

NDArray ItemOf(const NDArray& array, nb::handle index) {
  const auto [begin, end] = RowsOf(array, index);
  const NDArray rows = array.SliceRows(begin, end);
  return nb::isinstance<nb::slice>(index) ? rows : rows.Reshape(array.shape().WithoutAxis(0));
}

// Copies `value`, a number or an array of the same shape, into `to`.
void Assign(NDArray to, nb::handle value) {
  if (nb::isinstance<nb::float_>(value) || nb::isinstance<nb::int_>(value))
    return to.Fill(nb::cast<double>(value));
  const NDArray from = ArrayOf(value, "the value");
  (from.dtype() == to.dtype() ? from : from.AsType(to.dtype())).CopyTo(&to);
}

void SetItem(NDArray& array, nb::handle index, nb::handle value) {
  if (index.is(nb::ellipsis())) return Assign(array, value);
  Assign(ItemOf(array, index), value);
}

std::string Text(const NDArray& array) {
  if (array.valid()) WaitForUses(array);
  std::ostringstream out;
  out << array;
  return out.str();
}

double Scalar(const NDArray& array) {
  if (array.size() != 1) {
    std::ostringstream why;
    why << "an array of shape " << array.shape() << " is no number; only one of one element is";
    throw Error(ErrorCode::kInvalidArgument, why.str());
  }
  if (array.dtype() == DType::kInt64) {
    Wait(ReadyToRead(array));
    return static_cast<double>(array.ToVector<int64_t>()[0]);
  }
  const NDArray value = array.dtype() == DType::kFloat64 ? array : array.AsType(DType::kFloat64);
  Wait(ReadyToRead(value));
  return value.ToVector<double>()[0];
}

void BindContext(nb::module_& module) {
  nb::class_<Context>(module, "Context", "A device: cpu(i), gpu(i), or cpu_pinned(i).")
      .def_prop_ro("device_type",
                   [](const Context& context) {
                     const char* const names[] = {"cpu", "gpu", "cpu_pinned"};
                     return names[static_cast<size_t>(context.kind)];
                   })
      .def_ro("device_id", &Context::id)
      .def(
          "__eq__", [](const Context& a, const Context& b) { return a == b; },
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__",
           [](const Context& context) { return static_cast<int>(context.kind) * 65536 + context.id; })
      .def("__repr__", &Context::ToString);
  module.def("cpu", &cpu, "device_id"_a = 0, "Returns a context of host memory and of a share of the cores.");
  module.def("gpu", &gpu, "device_id"_a = 0, "Returns a GPU's context.");
  module.def("cpu_pinned", &cpu_pinned, "device_id"_a = 0,
             "Returns a context of host memory that GPUs copy fast.");
}

void BindMaking(nb::module_& module) {
  module.def(
      "from_foreign",
      [](nb::handle object, Context context) { return ArrayOf(object, "the value", true, context); },
      "object"_a.none(), "context"_a);
  module.def(
      "empty",
      [](nb::handle shape, Context context, std::string_view dtype) {
        return NDArray::Empty(ShapeFrom(shape), context, DTypeOfName(dtype));
      },
      "shape"_a, "context"_a, "dtype"_a);
  module.def(
      "wait_all", [] { RunBlocking([] { WaitAll(); }); },
      "Waits for all operations that were issued on every context.");
}

template <typename Class>
void BindShape(Class& array) {
  array
      .def_prop_ro(
          "shape", [](const NDArray& a) { return TupleOf(a.shape()); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "The extents of the axes.")
      .def_prop_ro(
          "ndim", [](const NDArray& a) { return a.shape().ndim(); }, "The number of axes.")
      .def_prop_ro("size", &NDArray::size, "The number of elements.")
      .def_prop_ro(
          "dtype_name", [](const NDArray& a) { return std::string(Name(a.dtype())); },
          "The type of the elements, such as 'float32'.")
      .def_prop_ro("context", &NDArray::context, "The device on which the array is.")
      .def("__len__",
           [](const NDArray& a) {
             if (a.shape().ndim() == 0) throw nb::type_error("an array without axes has no length");
             return a.shape()[0];
           })
      .def(
          "reshape", [](const NDArray& a, nb::handle shape) { return a.Reshape(ShapeFrom(shape)); },
          "shape"_a, "Returns a view of the same elements.")
      .def("__getitem__", &ItemOf, "index"_a)
      .def("__setitem__", &SetItem, "index"_a, "value"_a.none());
}

template <typename Class>
void BindValues(Class& array) {
  array
      .def("asnumpy", &AsNumpy, nb::sig("def asnumpy(self) -> typing.Any"),
           "Waits for the value and returns a copy of it as a NumPy array.")
      .def("view", &ViewOf, nb::sig("def view(self, writable: bool = False) -> typing.Any"),
           "writable"_a = false,
           "Waits for everything that was issued on the array and returns its own memory as a NumPy array. A "
           "view that "
           "is written to must not be used while operations on the array are under way.")
      .def(
          "__array__",
          [](NDArray& a, nb::handle dtype, nb::handle copy) {
            const nb::object shown = nb::cast<bool>(nb::bool_(copy)) ? AsNumpy(a) : ViewOf(a, false);
            return dtype.is_none() ? shown : shown.attr("astype")(dtype);
          },
          "dtype"_a = nb::none(), "copy"_a = nb::none())
      .def("__dlpack__", &DLPack, nb::sig("def __dlpack__(self, **kwargs: typing.Any) -> typing.Any"))
      .def(
          "__dlpack_device__", [](const NDArray&) { return nb::make_tuple(nb::device::cpu::value, 0); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def(
          "wait_to_read", [](const NDArray& a) { Wait(ReadyToRead(a)); },
          "Waits for the value; throws the failure of the operation that makes it.")
      .def("asscalar", &Scalar, "Waits for the one element and returns it.")
      .def("item", &Scalar)
      .def("__float__", &Scalar)
      .def("__repr__", &Text);
}

template <typename Class>
void BindCopies(Class& array) {
  array
      .def("as_in_context", &NDArray::AsInContext, "context"_a,
           "Returns the array if it is there already, else a copy on that context.")
      .def(
          "astype", [](const NDArray& a, std::string_view dtype) { return a.AsType(DTypeOfName(dtype)); },
          "dtype"_a)
      .def("copy", &NDArray::Copy)
      .def(
          "copyto", [](const NDArray& a, NDArray& to) { a.CopyTo(&to); }, "destination"_a,
          "Copies to an array of the same shape.")
      .def("fill", &NDArray::Fill, "value"_a);
}

template <typename Class>
void BindArithmetic(Class& array) {
  array.def(nb::self + nb::self)
      .def(nb::self - nb::self)
      .def(nb::self * nb::self)
      .def(nb::self / nb::self)
      .def(nb::self + float())
      .def(nb::self - float())
      .def(nb::self * float())
      .def(nb::self / float())
      .def(float() + nb::self)
      .def(float() - nb::self)
      .def(float() * nb::self)
      .def(float() / nb::self)
      .def(-nb::self)
      .def(nb::self += nb::self)
      .def(nb::self -= nb::self)
      .def(nb::self *= nb::self)
      .def(nb::self /= nb::self)
      .def(nb::self += float())
      .def(nb::self -= float())
      .def(nb::self *= float())
      .def(nb::self /= float());
}

}  // namespace

void BindArrays(nb::module_& module) {
  BindContext(module);
  BindMaking(module);
  nb::class_<NDArray> array(
      module, "NDArray",
      "An array on a device. Operations return at once; what shows values waits for them.");
  BindShape(array);
  BindValues(array);
  BindCopies(array);
  BindArithmetic(array);
}

}  // namespace sluice::python
