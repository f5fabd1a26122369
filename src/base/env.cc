#include "base/env.h"

#include <unistd.h>

#include <string_view>

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice {
namespace {

template <typename T>
T InRange(const std::string& name, const std::string& text, std::optional<T> value, T min, T max) {
  if (!value || *value < min || *value > max) {
    throw Error(ErrorCode::kInvalidArgument, StrCat("environment variable ", name, " is '", text,
                                                    "'; it must be a number from ", min, " to ", max));
  }
  return *value;
}

}  // namespace

Env Env::FromProcess() {
  std::map<std::string, std::string> values;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) values.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return Env(std::move(values));
}

std::optional<std::string> Env::Get(const std::string& name) const {
  const auto it = values_.find(name);
  if (it == values_.end() || it->second.empty()) return std::nullopt;
  return it->second;
}

std::string Env::Get(const std::string& name, const std::string& fallback) const {
  return Get(name).value_or(fallback);
}

int64_t Env::GetInt(const std::string& name, int64_t fallback, int64_t min, int64_t max) const {
  const auto text = Get(name);
  return text ? InRange(name, *text, ParseInt(*text), min, max) : fallback;
}

double Env::GetDouble(const std::string& name, double fallback, double min, double max) const {
  const auto text = Get(name);
  return text ? InRange(name, *text, ParseFiniteDouble(*text), min, max) : fallback;
}

bool Env::GetBool(const std::string& name, bool fallback) const {
  const auto text = Get(name);
  if (!text) return fallback;
  const auto value = ParseBool(*text);
  if (!value) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("environment variable ", name, " is '", *text, "'; it must be 1 or 0, true or false"));
  }
  return *value;
}

std::string Env::Require(const std::string& name, const std::string& why) const {
  if (auto value = Get(name)) return *value;
  throw Error(ErrorCode::kInvalidArgument, StrCat("environment variable ", name, " is not set: ", why));
}

}  // namespace sluice
