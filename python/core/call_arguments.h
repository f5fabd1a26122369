// The notations of a call on keys: one key with its value or values, or a list of keys with an entry for
// each. All functions are called with the GIL, and throw Error(kInvalidArgument) for what is no key and no
// array.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "sluice/key.h"
#include "sluice/ndarray.h"

namespace sluice::python {

namespace nb = nanobind;

using Keys = std::vector<Key>;
using Lists = std::vector<std::vector<NDArray>>;  // the arrays of each key, one for each device

bool IsList(nb::handle object);  // a list or a tuple

Key KeyOf(nb::handle key);
Keys KeysOf(nb::handle keys);

// Returns the values that a call sends. With `copy` they are copies of other libraries' arrays (ArrayOf).
Lists InputsOf(nb::handle keys, nb::handle values, size_t count, bool copy = true);
// The same for calls that take one value for each key.
std::vector<NDArray> SinglesOf(nb::handle keys, nb::handle values, size_t count);

// Where a call's results go.
struct Outputs {
  Lists lists;
  std::vector<NDArray> foreign;  // those that are other libraries' memory
};
Outputs OutputsOf(nb::handle keys, nb::handle values, size_t count);

// Waits until each of the arrays has its value; throws the failure of a call that was to write one.
void AwaitAll(const std::vector<NDArray>& arrays);

}  // namespace sluice::python
