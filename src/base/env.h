// Environment variables, read once in main(). Tests pass a map instead.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace sluice {

class Env {
 public:
  // Returns a copy of this process's environment.
  static Env FromProcess();
  explicit Env(std::map<std::string, std::string> values) : values_(std::move(values)) {}

  // Returns the variable's value. An empty value counts as not set, in all methods.
  std::optional<std::string> Get(const std::string& name) const;
  std::string Get(const std::string& name, const std::string& fallback) const;
  // These return `fallback` when the variable is not set. They throw Error(kInvalidArgument),
  // which names the variable, its value and the accepted values, when its text is not a
  // number from min to max, or not a bool.
  int64_t GetInt(const std::string& name, int64_t fallback, int64_t min, int64_t max) const;
  double GetDouble(const std::string& name, double fallback, double min, double max) const;
  bool GetBool(const std::string& name, bool fallback) const;
  // Returns the value. Throws Error(kInvalidArgument) when the variable is not set; `why` ends the message,
  // for example "launch.py sets it".
  std::string Require(const std::string& name, const std::string& why) const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace sluice
