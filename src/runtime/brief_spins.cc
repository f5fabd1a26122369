// How long OpenMP's waiting threads look for more work before they sleep: docs/design/tensors.md, "Waiting
// threads". libgomp has read GOMP_SPINCOUNT before main() begins, and has no call that changes it.
#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "sluice/runtime.h"

namespace sluice {
namespace {

constexpr const char* kTurns = "GOMP_SPINCOUNT";
constexpr const char* kRestarted = "SLUICE_RESTARTED";  // from here, to the program that starts again

}  // namespace

void RestartWithBriefSpins(int argc, char** argv) {
  if (getenv(kRestarted) != nullptr) {  // libgomp has read the number, and what this starts keeps its own
    unsetenv(kRestarted);
    unsetenv(kTurns);
    return;
  }
  for (const char* setting : {kTurns, "OMP_WAIT_POLICY"}) {
    if (getenv(setting) != nullptr) return;
  }
  // Started as an argument of the loader, whose arguments are others: it is the file of this process then.
  if (argc < 1 || argv == nullptr || getauxval(AT_BASE) == 0) return;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || setenv(kRestarted, "1", 1) != 0 || setenv(kTurns, "3000", 1) != 0) return;
  std::vector<char*> arguments(argv, argv + argc);
  arguments.push_back(nullptr);
  execv(self.c_str(), arguments.data());
  unsetenv(kRestarted);  // it cannot be started again, and goes on as it is
  unsetenv(kTurns);
}

}  // namespace sluice
