// sluice::Error as the exceptions of sluice/errors.py. The message is C++'s, unchanged.
#include <nanobind/nanobind.h>

#include <exception>

#include "core.h"
#include "sluice/error.h"

namespace sluice::python {
namespace {

// The name of a code's class in sluice/errors.py.
const char* ClassOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "InvalidArgument";
    case ErrorCode::kNotFound:
      return "NotFound";
    case ErrorCode::kAlreadyExists:
      return "AlreadyExists";
    case ErrorCode::kFailedPrecondition:
      return "FailedPrecondition";
    case ErrorCode::kDataLoss:
      return "DataLoss";
    case ErrorCode::kDeadlineExceeded:
      return "DeadlineExceeded";
    case ErrorCode::kUnavailable:
      return "Unavailable";
    case ErrorCode::kPermissionDenied:
      return "PermissionDenied";
    case ErrorCode::kResourceExhausted:
      return "ResourceExhausted";
    case ErrorCode::kUnimplemented:
      return "Unimplemented";
    case ErrorCode::kCancelled:
      return "Cancelled";
  }
  return "Error";
}

void Translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const nb::object type = nb::module_::import_("sluice.errors").attr(ClassOf(error.code()));
    PyErr_SetObject(type.ptr(), type(error.what()).ptr());
  }
}

}  // namespace

void BindErrors(nb::module_&) {
  nb::register_exception_translator(&Translate);
}

}  // namespace sluice::python
