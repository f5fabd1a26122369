// What --check-build says of GPUs and libraries that are there and that are not, within 80 columns.
#include "runtime/build_check.h"

#include <gmock/gmock.h>

#include <sstream>

#include "runtime/gpu_check.h"
#include "sluice/version.h"

namespace sluice::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Report(const Gpus& found, const std::vector<GpuLibrary>& libraries) {
  const std::string report = CheckReport(RowsOfBuild(), RowsOfGpus(found, libraries));
  std::istringstream lines(report);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_TRUE(report.ends_with("\n"));
  return report;
}

TEST(BuildCheck, NamesTheGpusAndTheVersionsOfTheirLibraries) {
  const Gpus two = std::vector<GpuInfo>{{"NVIDIA H200", uint64_t{139} << 30}, {"Other", uint64_t{8} << 30}};
  const std::string report =
      Report(two, {{"cuDNN", std::string("9.19.0")}, {"cuBLASLt", std::string("13.1.0")}});
  EXPECT_THAT(report, StartsWith(std::string("Sluice ") + kVersion + "\n\nThis build has\n  compiler  "));
  EXPECT_THAT(report, HasSubstr("\nThis machine has\n"
                                "  GPUs      gpu(0) NVIDIA H200 (139 GiB), gpu(1) Other (8 GiB)\n"
                                "  cuDNN     9.19.0\n"
                                "  cuBLASLt  13.1.0\n"));
}

TEST(BuildCheck, SaysWhyThereIsNone) {
  const std::string why =
      "libcudnn.so.9 cannot be loaded (no such file); install NVIDIA's package for CUDA 13 and put its "
      "folder "
      "into LD_LIBRARY_PATH";
  const std::string report = Report(Fail(ErrorCode::kUnavailable, "CUDA finds no GPU"),
                                    {{"cuDNN", Fail(ErrorCode::kUnavailable, why)}});
  EXPECT_THAT(report, HasSubstr("  GPUs      none: CUDA finds no GPU\n"));
  EXPECT_THAT(report, HasSubstr("  cuDNN     none: libcudnn.so.9 cannot be loaded (no such file);"));
  EXPECT_THAT(report, HasSubstr("\n            NVIDIA's package for CUDA 13"));  // below the text's beginning
}

TEST(BuildCheck, SaysWhatTheBuildIsAndHowManyCoresThereAre) {
  const std::string report = CheckReport(RowsOfBuild(), RowsOfMachine());
  EXPECT_THAT(report, HasSubstr("  compiler  "));
  EXPECT_THAT(report, HasSubstr("  CUDA      "));
  EXPECT_THAT(report, HasSubstr("  NCCL      "));
  EXPECT_THAT(report, HasSubstr("  stores    local, device, "));
  EXPECT_THAT(report, HasSubstr("  cores     "));
}

}  // namespace
}  // namespace sluice::runtime
