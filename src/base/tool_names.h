// The names of the programs of tools/ for messages.
#pragma once

#include <filesystem>
#include <string>

namespace sluice {

// Each returns the command, such as "sluice_launch", if that lies beside this program, as in an installation
// (cmake/SluiceInstall.cmake). Else it returns "tools/launch.py (installed: sluice_launch)".
std::string LaunchTool();
std::string MnistTool();
std::string Cifar10Tool();

// Exposed for tests: `command` if the folder has it, else both names.
std::string ToolName(const std::string& path, const std::string& command,
                     const std::filesystem::path& folder);

}  // namespace sluice
