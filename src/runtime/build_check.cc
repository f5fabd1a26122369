#include "runtime/build_check.h"

#include <algorithm>

#include "base/cores.h"
#include "base/strings.h"
#include "runtime/build_config.h"
#include "sluice/version.h"

namespace sluice::runtime {
namespace {

void Append(const std::string& title, const CheckRows& rows, size_t width, std::string* report) {
  *report += StrCat("\n", title, "\n");
  for (const CheckRow& row : rows) {
    const std::string name = StrCat("  ", row.name, std::string(width - row.name.size(), ' '), "  ");
    *report += StrCat(name, StrWrap(row.text, 80, name.size(), name.size()), "\n");
  }
}

}  // namespace

CheckRows RowsOfBuild() {
  const std::string stores =
      StrCat("local, device, ", kHasNccl ? "nccl, " : "",
             "dist_sync, dist_device_sync, dist_async, dist_device_async", kHasNccl ? "" : "; not nccl");
  return {{"compiler", kBuiltBy}, {"CUDA", kBuiltWithCuda}, {"NCCL", kBuiltWithNccl}, {"stores", stores}};
}

bool BuildHasNccl() {
  return kHasNccl;
}

CheckRows RowsOfMachine() {
  const auto quota = CpuQuota();
  return {{"cores", StrCat(CoreCount(), " (this process may run on ", CoresOfProcess().size(),
                           quota ? StrCat(", its control group allows ", *quota) : "", ")")}};
}

std::string CheckReport(const CheckRows& build, const CheckRows& machine) {
  size_t width = 0;
  for (const CheckRows* rows : {&build, &machine})
    for (const CheckRow& row : *rows) width = std::max(width, row.name.size());
  std::string report = StrCat("Sluice ", kVersion, "\n");
  Append("This build has", build, width, &report);
  Append("This machine has", machine, width, &report);
  return report;
}

}  // namespace sluice::runtime
