// The names of the programs of tools/ for messages: the path in a checkout, and the command where Sluice is
// installed (cmake/SluiceInstall.cmake).
#pragma once

namespace sluice {

inline constexpr const char* kLaunchTool = "tools/launch.py (installed: sluice_launch)";
inline constexpr const char* kMnistTool = "tools/get_mnist.py (installed: sluice_get_mnist)";
inline constexpr const char* kCifar10Tool = "tools/get_cifar10.py (installed: sluice_get_cifar10)";

}  // namespace sluice
