// Finds the control groups of this process from two files of proc(5): /proc/self/mountinfo says where each
// hierarchy is mounted and which group is seen there, /proc/self/cgroup which group the process is in. Both
// are read at every call, and nothing is kept. base/cores.cc asks for CPU quotas, base/limits.cc for limits
// of memory and threads, on any thread.
#include "base/control_groups.h"

#include <algorithm>
#include <fstream>

#include "base/strings.h"

namespace sluice {
namespace {

using std::filesystem::path;

// Undoes the escapes of mountinfo, which writes space, tab, newline and backslash in octal: "\040" (proc(5)).
std::string Unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto is_octal = [&](size_t at) { return text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(i + 1) && is_octal(i + 2) && is_octal(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::vector<std::string> Lines(const path& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool Names(std::string_view list, std::string_view word) {
  const std::vector<std::string> words = StrSplit(list, ',');
  return std::ranges::find(words, word) != words.end();
}

// A mount of a hierarchy: the directory `place` shows the group `top`.
struct Mount {
  std::string top, place;
  bool v2 = false;
};

std::vector<Mount> MountsOf(std::string_view controller, const path& root) {
  std::vector<Mount> mounts;
  for (const std::string& line : Lines(root / "proc/self/mountinfo")) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> place = StrSplit(std::string_view(line).substr(0, dash), ' ');
    const std::vector<std::string> kind = StrSplit(std::string_view(line).substr(dash + 3), ' ');
    if (place.size() < 5 || kind.empty()) continue;
    const bool v2 = kind[0] == "cgroup2";
    if (!v2 && !(kind[0] == "cgroup" && kind.size() > 2 && Names(kind[2], controller))) continue;
    mounts.push_back({Unescaped(place[3]), Unescaped(place[4]), v2});
  }
  return mounts;
}

// Returns this process's group in the hierarchy; nullopt where it has none.
std::optional<std::string> OwnGroup(std::string_view controller, bool v2, const path& root) {
  for (const std::string& line : Lines(root / "proc/self/cgroup")) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const bool is_v2 = controllers.empty() && line.starts_with("0:");
    if (v2 ? is_v2 : Names(controllers, controller)) return line.substr(second + 1);
  }
  return std::nullopt;
}

// Returns the path of the group `own` relative to the mounted group `top`. A group that does not lie below
// `top` has a name from outside this container's namespace; the mounted group is then taken for the
// process's own, and the path is empty.
path BelowMount(const std::string& own, const std::string& top) {
  path relative = path(own).lexically_relative(top);
  if (relative.empty() || relative == "." || *relative.begin() == "..") return {};
  return relative;
}

}  // namespace

std::vector<ControlGroup> ControlGroups(std::string_view controller, const path& root) {
  std::vector<ControlGroup> groups;
  for (const Mount& mount : MountsOf(controller, root)) {
    const auto own = OwnGroup(controller, mount.v2, root);
    // A `top` above the namespace's root is another namespace's hierarchy, such as the host's, mounted in a
    // container that monitors the host.
    if (!own || mount.top.starts_with("/..")) continue;
    const path place = root / path(mount.place).relative_path();
    for (path below = BelowMount(*own, mount.top);; below = below.parent_path()) {
      groups.push_back({below.empty() ? place : place / below, mount.v2});
      if (below.empty()) break;
    }
  }
  return groups;
}

std::optional<std::string> ReadGroupFile(const ControlGroup& group, std::string_view name) {
  std::ifstream in(group.folder / name);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad()) return std::nullopt;
  return std::string(StrTrim(text));
}

}  // namespace sluice
