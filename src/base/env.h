// Reading the environment once, in main(). Tests hand in a map instead.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace sluice {

class Env {
 public:
  // The environment of this process.
  static Env FromProcess();
  explicit Env(std::map<std::string, std::string> values) : values_(std::move(values)) {}

  // An empty value counts as not set.
  std::optional<std::string> Get(const std::string& name) const;
  std::string Get(const std::string& name, const std::string& fallback) const;
  // Throws Error(kInvalidArgument) that names the variable, its value and the accepted range.
  int64_t GetInt(const std::string& name, int64_t fallback, int64_t min, int64_t max) const;
  double GetDouble(const std::string& name, double fallback, double min, double max) const;
  bool GetBool(const std::string& name, bool fallback) const;
  // Throws when the variable is not set; `why` ends the message, for example "launch.py sets it".
  std::string Require(const std::string& name, const std::string& why) const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace sluice
