// The names under which a checkpoint keeps the memory of callbacks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/strings.h"
#include "sluice/callback.h"

namespace sluice::train {

// Returns a name for each callback: its own, with " #2" and so on when the name occurs again. It is empty for
// callbacks without memory.
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
