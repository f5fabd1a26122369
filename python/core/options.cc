// Optimizers, compressions and initial rows from the fields of Python's dataclasses (python/sluice/optim.py).
// A field that is absent keeps the default of C++; one that C++ does not have, or of a wrong type, is an
// error with its name. kvstore.cc calls these with the GIL.
#include "options.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <map>
#include <string>

#include "core.h"

namespace sluice::python {
namespace {

namespace nb = nanobind;

// How each field of T is read from Python.
template <typename T>
using Setters = std::map<std::string, std::function<void(T&, nb::handle)>>;

template <typename T, typename Field>
std::function<void(T&, nb::handle)> Number(Field T::*field) {
  return [field](T& config, nb::handle value) { config.*field = nb::cast<Field>(value); };
}

// The enumerator whose place in `names` is the text's.
template <typename Enum, size_t n>
Enum Named(const char* what, const char* const (&names)[n], nb::handle value) {
  const auto name = nb::cast<std::string>(value);
  std::string all;
  for (size_t i = 0; i < n; ++i) {
    if (name == names[i]) return static_cast<Enum>(i);
    all += (i == 0 ? "" : ", ") + std::string(names[i]);
  }
  ThrowInvalid(std::string(what) + " is '" + name + "'; it is one of " + all);
}

template <typename T>
T From(const char* what, const nb::dict& fields, const Setters<T>& setters) {
  T config;
  for (const auto& [key, value] : fields) {
    const auto name = nb::cast<std::string>(key);
    const auto setter = setters.find(name);
    if (setter == setters.end()) ThrowInvalid(std::string(what) + " has no field '" + name + "'");
    try {
      setter->second(config, value);
    } catch (const nb::cast_error&) {
      ThrowInvalid(std::string(what) + ": " + name + " cannot be " + nb::cast<std::string>(nb::repr(value)));
    }
  }
  return config;
}

LrSchedule ScheduleFrom(const nb::dict& fields) {
  using T = LrSchedule;
  static const Setters<T> setters = {
      {"kind",
       [](T& config, nb::handle value) {
         static const char* const names[] = {"constant", "factor", "multi_factor", "poly", "cosine"};
         config.kind = Named<LrScheduleKind>("the kind of a schedule", names, value);
       }},
      {"warmup_mode",
       [](T& config, nb::handle value) {
         static const char* const names[] = {"linear", "constant"};
         config.warmup_mode = Named<WarmupMode>("warmup_mode", names, value);
       }},
      {"factor", Number(&T::factor)},
      {"step", Number(&T::step)},
      {"stop_factor_lr", Number(&T::stop_factor_lr)},
      {"steps", Number(&T::steps)},
      {"max_update", Number(&T::max_update)},
      {"final_lr", Number(&T::final_lr)},
      {"power", Number(&T::power)},
      {"warmup_steps", Number(&T::warmup_steps)},
      {"warmup_begin_lr", Number(&T::warmup_begin_lr)},
  };
  return From("a schedule", fields, setters);
}

void SetMultipliers(OptimizerConfig& config, nb::handle value) {
  for (const auto& [key, pair] : nb::cast<nb::dict>(value)) {
    const nb::tuple numbers = nb::cast<nb::tuple>(pair);
    config.multipliers[nb::cast<std::string>(nb::str(key))] = {nb::cast<double>(numbers[0]),
                                                               nb::cast<double>(numbers[1])};
  }
}

void SetKind(OptimizerConfig& config, nb::handle value) {
  const auto name = nb::cast<std::string>(value);
  const auto kind = OptimizerKindOf(name);
  if (!kind) ThrowInvalid("there is no optimizer '" + name + "'");
  config.kind = *kind;
}

}  // namespace

nb::dict FieldsOf(nb::handle options, const char* wanted) {
  if (!nb::hasattr(options, "_config"))
    throw nb::type_error(
        ("the argument is " + nb::cast<std::string>(nb::repr(options)) + "; it has to be " + wanted).c_str());
  return nb::cast<nb::dict>(options.attr("_config")());
}

OptimizerConfig OptimizerFrom(const nb::dict& fields) {
  using T = OptimizerConfig;
  static const Setters<T> setters = {
      {"kind", &SetKind},
      {"learning_rate", Number(&T::learning_rate)},
      {"momentum", Number(&T::momentum)},
      {"wd", Number(&T::wd)},
      {"clip_gradient", Number(&T::clip_gradient)},
      {"rescale_grad", Number(&T::rescale_grad)},
      {"beta1", Number(&T::beta1)},
      {"beta2", Number(&T::beta2)},
      {"epsilon", Number(&T::epsilon)},
      {"rho", Number(&T::rho)},
      {"centered", Number(&T::centered)},
      {"lambda1", Number(&T::lambda1)},
      {"beta", Number(&T::beta)},
      {"lower_bound", Number(&T::lower_bound)},
      {"upper_bound", Number(&T::upper_bound)},
      {"wd_lh", Number(&T::wd_lh)},
      {"multi_precision", Number(&T::multi_precision)},
      {"normalize_by_samples", Number(&T::normalize_by_samples)},
      {"schedule",
       [](T& config, nb::handle value) { config.schedule = ScheduleFrom(nb::cast<nb::dict>(value)); }},
      {"multipliers", &SetMultipliers},
  };
  return From("an optimizer", fields, setters);
}

GradientCompression CompressionFrom(const nb::dict& fields) {
  using T = GradientCompression;
  static const Setters<T> setters = {
      {"type",
       [](T& config, nb::handle value) { config.type = CompressionFromName(nb::cast<std::string>(value)); }},
      {"weights",
       [](T& config, nb::handle value) {
         config.weights = CompressionFromName(nb::cast<std::string>(value));
       }},
      {"threshold", Number(&T::threshold)},
      {"ratio", Number(&T::ratio)},
  };
  return From("a compression", fields, setters);
}

RowInit RowInitFrom(const nb::dict& fields) {
  using T = RowInit;
  static const Setters<T> setters = {
      {"fill",
       [](T& config, nb::handle value) {
         static const char* const names[] = {"constant", "uniform", "normal"};
         config.fill = Named<RowFill>("the fill of rows", names, value);
       }},
      {"center", Number(&T::center)},
      {"width", Number(&T::width)},
      {"seed", Number(&T::seed)},
  };
  return From("the initial value of rows", fields, setters);
}

}  // namespace sluice::python
