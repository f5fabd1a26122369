// The parts of the module sluice._core, one function for each file. Nothing here decides anything: arguments
// become those of the public C++ headers, and results and errors become Python's.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "sluice/error.h"

namespace sluice::python {

namespace nb = nanobind;

[[noreturn]] inline void ThrowInvalid(const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, why);
}

void BindErrors(nb::module_& module);
void BindArrays(nb::module_& module);
void BindStores(nb::module_& module);
void BindRuntime(nb::module_& module);

}  // namespace sluice::python
