// Shortens the time that OpenMP's waiting threads spin before they sleep:
// docs/design/tensors.md, "Waiting threads". libgomp reads GOMP_SPINCOUNT before main() begins
// and has no call that changes it, so the program is started again with the variable set.
#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "sluice/runtime.h"

namespace sluice {
namespace {

constexpr const char* kSpinCount = "GOMP_SPINCOUNT";
constexpr const char* kRestarted = "SLUICE_RESTARTED";  // set for the program that is started again

}  // namespace

void RestartWithBriefSpins(int argc, char** argv) {
  if (getenv(kRestarted) != nullptr) {  // libgomp has read it; processes started later must not inherit it
    unsetenv(kRestarted);
    unsetenv(kSpinCount);
    return;
  }
  for (const char* setting : {kSpinCount, "OMP_WAIT_POLICY"}) {
    if (getenv(setting) != nullptr) return;
  }
  // AT_BASE is 0 when the program was started through the loader (ld.so
  // PROGRAM): /proc/self/exe is then the loader, which takes other arguments.
  if (argc < 1 || argv == nullptr || getauxval(AT_BASE) == 0) return;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || setenv(kRestarted, "1", 1) != 0 || setenv(kSpinCount, "3000", 1) != 0) return;
  std::vector<char*> arguments(argv, argv + argc);
  arguments.push_back(nullptr);
  execv(self.c_str(), arguments.data());
  unsetenv(kRestarted);  // the restart failed; the program goes on as it is
  unsetenv(kSpinCount);
}

}  // namespace sluice
