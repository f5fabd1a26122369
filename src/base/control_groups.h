// Where the kernel's control groups (cgroups(7)) keep what they allow this process.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct ControlGroup {
  std::filesystem::path folder;
  bool v2 = false;  // of the unified hierarchy
};

// The groups of this process that `controller` ("cpu", "memory", "pids") may bound, each before its parent,
// as far up as this process sees them; of v1, of v2, and of both where both are mounted. A file of a limit
// may be missing in any of them. `root` is the root of the file system, which tests replace. Never throws:
// what cannot be read does not count.
std::vector<ControlGroup> ControlGroups(std::string_view controller, const std::filesystem::path& root = "/");

// The text of a group's file without the spaces around it; empty when it cannot be read.
std::optional<std::string> ReadGroupFile(const ControlGroup& group, std::string_view name);

}  // namespace sluice
