// The flags of a program, on top of gflags' registry, which owns their values. This file decides which flags
// are the program's, reads the arguments, checks the values and writes the help; it keeps no state.
// Invariants: flags that gflags or glog defines are never set; a flag gets only a value of its type.
// ParseFlags (gpu_check.cc) and programs without tensors call ParseProgramFlags at their start, on the main
// thread.
#include "sluice/flags.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <optional>
#include <utility>

#include "base/nearest.h"
#include "base/strings.h"
#include "runtime/program_flags.h"
#include "sluice/version.h"

namespace sluice {
namespace {

using FlagInfo = gflags::CommandLineFlagInfo;

[[noreturn]] void ThrowInvalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message + "; --help lists every flag");
}

// Flags that gflags and glog define are not flags of the program.
bool IsOfProgram(const FlagInfo& flag) {
  for (const char* library : {"gflags", "glog", "logging.cc", "vlog_is_on.cc", "utilities.cc"}) {
    if (flag.filename.find(library) != std::string::npos) return false;
  }
  return true;
}

std::vector<FlagInfo> ProgramFlags() {
  std::vector<FlagInfo> flags;
  gflags::GetAllFlags(&flags);
  std::erase_if(flags, [](const FlagInfo& flag) { return !IsOfProgram(flag); });
  std::sort(flags.begin(), flags.end(), [](const FlagInfo& a, const FlagInfo& b) { return a.name < b.name; });
  return flags;
}

std::string Dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

const FlagInfo* Find(const std::vector<FlagInfo>& flags, const std::string& name) {
  for (const FlagInfo& flag : flags) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

[[noreturn]] void ThrowUnknown(const std::vector<FlagInfo>& flags, const std::string& argument,
                               const std::string& name) {
  std::vector<std::string> names;
  for (const FlagInfo& flag : flags) names.push_back(flag.name);
  const auto nearest = Nearest(name, names);
  ThrowInvalid(StrCat("unknown flag '", argument, "'",
                      nearest ? StrCat(" (did you mean --", Dashed(*nearest), "?)") : ""));
}

// The values that a flag takes, in words for messages.
std::string Wanted(const FlagInfo& flag) {
  if (flag.type == "double") return "a finite number";
  if (flag.type == "bool") return "true or false";
  return flag.type == "string" ? "a text" : "a whole number";
}

void Set(const FlagInfo& flag, const std::string& value) {
  const bool number = flag.type == "double";
  if ((number && !ParseFiniteDouble(value)) || (flag.type != "string" && value.empty()) ||
      gflags::SetCommandLineOption(flag.name.c_str(), value.c_str()).empty()) {
    ThrowInvalid(StrCat("flag --", Dashed(flag.name), " got '", value, "'; it takes ", Wanted(flag)));
  }
}

// gflags prints 0.05 as 0.050000000000000003; this prints the shortest text.
std::string DefaultOf(const FlagInfo& flag) {
  if (flag.type == "string") return StrCat('"', flag.default_value, '"');
  const auto number = flag.type == "double" ? ParseFiniteDouble(flag.default_value) : std::nullopt;
  return number ? StrCat(*number) : flag.default_value;
}

}  // namespace

std::string FlagsHelp(const std::string& program, const std::string& usage) {
  const std::vector<FlagInfo> flags = ProgramFlags();
  std::string out =
      StrWrap(usage, 80) + StrCat("\n\nUsage: ", program, flags.empty() ? "" : " [--flag=value ...]", "\n");
  if (!flags.empty()) out += "\nFlags:\n";
  for (const FlagInfo& flag : flags) {
    out += StrCat("  --", Dashed(flag.name), " (", flag.type, ", default ", DefaultOf(flag), ")\n      ",
                  StrWrap(flag.description, 80, 6, 6), "\n");
  }
  out += "\n--check-build says what build and machine have, --version says the version.\n";
  return out;
}

void runtime::ParseProgramFlags(int argc, char** argv, const std::string& usage, CheckRows (*machine)()) {
  const std::vector<FlagInfo> flags = ProgramFlags();
  if (argv == nullptr) argc = 0;
  const auto argument_at = [&](int i) -> std::string {
    if (argv[i] == nullptr) ThrowInvalid(StrCat("argument ", i, " of ", argc - 1, " is a null pointer"));
    return argv[i];
  };
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argument_at(i);
    if (argument == "--help" || argument == "-h") {
      const std::string path = argument_at(0);
      std::cout << FlagsHelp(path.substr(path.find_last_of('/') + 1), usage);
      std::exit(0);
    }
    if (argument == "--version") {
      std::cout << "Sluice " << kVersion << "\n";
      std::exit(0);
    }
    if (argument == "--check-build") {
      std::cout << CheckReport(RowsOfBuild(), machine());
      std::exit(0);
    }
    if (!argument.starts_with("--") || argument.size() == 2) {
      const bool one_dash = argument.starts_with("-") && argument.size() > 2;
      ThrowInvalid(
          StrCat("stray argument '", argument, "'", one_dash ? "; flags begin with two dashes" : ""));
    }
    const size_t equals = argument.find('=');
    std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(name.begin(), name.end(), '-', '_');
    if (const FlagInfo* flag = Find(flags, name)) {
      if (equals != std::string::npos) {
        Set(*flag, argument.substr(equals + 1));
      } else if (flag->type == "bool") {
        Set(*flag, "true");
      } else if (i + 1 < argc) {
        Set(*flag, argument_at(++i));
      } else {
        ThrowInvalid(StrCat("flag '", argument, "' needs a value"));
      }
      continue;
    }
    const FlagInfo* negated =
        name.starts_with("no") ? Find(flags, name.substr(name.starts_with("no_") ? 3 : 2)) : nullptr;
    if (negated == nullptr || negated->type != "bool" || equals != std::string::npos) {
      ThrowUnknown(flags, argument, name);
    }
    Set(*negated, "false");
  }
}

}  // namespace sluice
