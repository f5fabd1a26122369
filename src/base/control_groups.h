// Finds the kernel's control groups (cgroups(7)) of this process, and reads the files that hold their limits.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct ControlGroup {
  std::filesystem::path folder;
  bool v2 = false;  // whether it belongs to the unified hierarchy (cgroup v2)
};

// Returns the groups of this process in the hierarchies that `controller` ("cpu", "memory", "pids")
// may limit: each group before its parent, as far up as this process sees them. Groups of v1 and of
// v2 are returned, and both where both are mounted. The file of a limit may be missing in any of
// them. `root` is the root of the file system, which tests replace. Hierarchies that cannot be read
// are left out; nothing is thrown for them.
std::vector<ControlGroup> ControlGroups(std::string_view controller, const std::filesystem::path& root = "/");

// Returns the text of the group's file `name`, trimmed; nullopt when it cannot be read.
std::optional<std::string> ReadGroupFile(const ControlGroup& group, std::string_view name);

}  // namespace sluice
