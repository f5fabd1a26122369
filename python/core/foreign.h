// Memory of other libraries as arrays: what supports DLPack or the buffer protocol, such as the arrays of
// NumPy, PyTorch and JAX. All functions are called with the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "sluice/ndarray.h"

namespace sluice::python {

namespace nb = nanobind;

nb::dlpack::dtype DLPackTypeOf(DType dtype);
// Returns the dtype of that name. Throws Error(kInvalidArgument), which lists the names, for any other.
DType DTypeOfName(std::string_view name);

// Returns `object` as an array: an NDArray itself, a copy on `context` of any other library's array, whatever
// its strides, or, with `copy` false and elements that lie side by side, the same memory, which the array
// keeps alive. Throws Error(kInvalidArgument) for an object that is no array, is not in host memory, or has a
// type that no NDArray has; `what` names its role in the message.
NDArray ArrayOf(nb::handle object, const char* what, bool copy = true, Context context = cpu(0));

// The array that a call writes to.
struct Output {
  NDArray array;
  bool foreign;  // it is another library's memory, whose owner cannot wait for what is issued on it
};
// Throws Error(kInvalidArgument) as ArrayOf does, and for memory that may not be written or whose elements do
// not lie side by side, since a result in a copy would be lost.
Output OutputOf(nb::handle object, const char* what);

// Releases what arrays have held of other libraries' memory. The last reference may go on a thread without
// the GIL, which leaves it to the next caller of this function.
void ReleaseHeld();
// Nothing is released any more: Python is about to end, and threads may still give arrays back.
void LeaveHeld();

}  // namespace sluice::python
