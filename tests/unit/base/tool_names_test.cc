#include "base/tool_names.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "base/strings.h"

namespace sluice {
namespace {

TEST(ToolNames, ACommandBesideTheProgramIsNamedAlone) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / StrCat("tool-names-", getpid());
  EXPECT_EQ(ToolName("tools/x.py", "sluice_x", folder), "tools/x.py (installed: sluice_x)");
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "sluice_x").close();
  EXPECT_EQ(ToolName("tools/x.py", "sluice_x", folder), "sluice_x");
  std::filesystem::remove_all(folder);
}

TEST(ToolNames, ACheckoutHasFiles) {
  EXPECT_EQ(LaunchTool(), "tools/launch.py (installed: sluice_launch)");
  EXPECT_EQ(MnistTool(), "tools/get_mnist.py (installed: sluice_get_mnist)");
  EXPECT_EQ(Cifar10Tool(), "tools/get_cifar10.py (installed: sluice_get_cifar10)");
}

}  // namespace
}  // namespace sluice
