// Options from dictionaries: what sluice/optim.py describes as dataclasses.
#pragma once

#include <nanobind/nanobind.h>

#include "sluice/compression.h"
#include "sluice/optimizer.h"
#include "sluice/row_init.h"

namespace sluice::python {

// Returns the fields of one of these dataclasses. Throws TypeError for any other object; `wanted` says what
// it has to be.
nanobind::dict FieldsOf(nanobind::handle options, const char* wanted);

// Each throws Error(kInvalidArgument), which names the field, for a field that does not exist.
OptimizerConfig OptimizerFrom(const nanobind::dict& fields);
GradientCompression CompressionFrom(const nanobind::dict& fields);
RowInit RowInitFrom(const nanobind::dict& fields);

}  // namespace sluice::python
