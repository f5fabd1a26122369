#include "base/tool_names.h"

#include <system_error>

#include "base/strings.h"

namespace sluice {
namespace {

std::filesystem::path FolderOfThisProgram() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

}  // namespace

std::string ToolName(const std::string& path, const std::string& command,
                     const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::exists(folder / command, error) ? command
                                                          : StrCat(path, " (installed: ", command, ")");
}

std::string LaunchTool() {
  return ToolName("tools/launch.py", "sluice_launch", FolderOfThisProgram());
}

std::string MnistTool() {
  return ToolName("tools/get_mnist.py", "sluice_get_mnist", FolderOfThisProgram());
}

std::string Cifar10Tool() {
  return ToolName("tools/get_cifar10.py", "sluice_get_cifar10", FolderOfThisProgram());
}

}  // namespace sluice
