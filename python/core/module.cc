#include <nanobind/nanobind.h>

#include "core.h"

NB_MODULE(_core, module) {
  module.doc() =
      "The C++ side of Sluice. Programs use the package sluice, which has the names of this module.";
  nanobind::set_leak_warnings(false);  // any array that is still global at the interpreter's end prints them
  sluice::python::BindErrors(module);
  sluice::python::BindArrays(module);
  sluice::python::BindStores(module);
  sluice::python::BindRuntime(module);
}
