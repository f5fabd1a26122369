// Under which names callbacks' memory is kept.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/strings.h"
#include "sluice/callback.h"

namespace sluice::train {

// Beside the callbacks: their names, with " #2" and so on for those that come again; empty: without memory.
inline std::vector<std::string> MemoryNames(const std::vector<CallbackPtr>& callbacks) {
  std::vector<std::string> names;
  std::map<std::string, int> seen;
  for (const CallbackPtr& callback : callbacks) {
    std::string name = callback->name();
    const int count = ++seen[name];
    names.push_back(name.empty() || count == 1 ? name : StrCat(name, " #", count));
  }
  return names;
}

}  // namespace sluice::train
