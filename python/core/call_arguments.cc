#include "call_arguments.h"

#include <nanobind/stl/string.h>

#include <string>
#include <utility>

#include "core.h"
#include "foreign.h"
#include "interrupts.h"
#include "tensor/access.h"

namespace sluice::python {
namespace {

// Returns the entries of a call's keys.
std::vector<nb::object> EntriesOf(nb::handle keys, nb::handle values, size_t count) {
  if (!IsList(keys)) return {nb::cast<nb::object>(values)};
  if (!IsList(values)) ThrowInvalid("with a list of keys, values are a list as well: one entry for each key");
  std::vector<nb::object> entries;
  for (const nb::handle value : values) entries.push_back(nb::cast<nb::object>(value));
  if (entries.size() != count)
    ThrowInvalid("there are " + std::to_string(count) + " keys and " + std::to_string(entries.size()) +
                 " values");
  return entries;
}

// Calls add(list, value) for each value; `lists` gets a list for each key.
template <typename Add>
void ForEachValue(nb::handle keys, nb::handle values, size_t count, Lists& lists, Add add) {
  for (const nb::object& entry : EntriesOf(keys, values, count)) {
    std::vector<NDArray>& list = lists.emplace_back();
    if (!IsList(entry)) {
      add(list, entry);
      continue;
    }
    for (const nb::handle value : entry) add(list, value);
  }
}

}  // namespace

bool IsList(nb::handle object) {
  return nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object);
}

Key KeyOf(nb::handle key) {
  if (nb::isinstance<nb::str>(key)) return nb::cast<std::string>(key);
  if (nb::isinstance<nb::int_>(key) && !nb::isinstance<nb::bool_>(key)) {
    int64_t number = 0;
    if (nb::try_cast(key, number, false)) return number;
  }
  ThrowInvalid("a key is " + nb::cast<std::string>(nb::repr(key)) +
               "; a key is a text or a number of at most 63 bits");
}

Keys KeysOf(nb::handle keys) {
  if (!IsList(keys)) return {KeyOf(keys)};
  Keys all;
  for (const nb::handle key : keys) all.push_back(KeyOf(key));
  return all;
}

Lists InputsOf(nb::handle keys, nb::handle values, size_t count, bool copy) {
  Lists lists;
  ForEachValue(keys, values, count, lists, [copy](std::vector<NDArray>& list, nb::handle value) {
    list.push_back(ArrayOf(value, "the value", copy));
  });
  return lists;
}

std::vector<NDArray> SinglesOf(nb::handle keys, nb::handle values, size_t count) {
  std::vector<NDArray> singles;
  for (const std::vector<NDArray>& arrays : InputsOf(keys, values, count)) {
    if (arrays.size() != 1)
      ThrowInvalid("this call takes one value for each key, not " + std::to_string(arrays.size()));
    singles.push_back(arrays[0]);
  }
  return singles;
}

Outputs OutputsOf(nb::handle keys, nb::handle values, size_t count) {
  Outputs outputs;
  ForEachValue(keys, values, count, outputs.lists, [&outputs](std::vector<NDArray>& list, nb::handle value) {
    Output out = OutputOf(value, "the output");
    if (out.foreign) outputs.foreign.push_back(out.array);
    list.push_back(std::move(out.array));
  });
  return outputs;
}

void AwaitAll(const std::vector<NDArray>& arrays) {
  for (const NDArray& array : arrays) Wait(ReadyToRead(array));
}

}  // namespace sluice::python
