// The GPUs in `--check-build`, and ParseFlags of programs that may use them.
#include "runtime/gpu_check.h"

#include "base/strings.h"
#include "runtime/program_flags.h"
#include "sluice/context.h"
#include "sluice/flags.h"

namespace sluice {
namespace runtime {

CheckRows RowsOfGpus(const Gpus& found, const std::vector<GpuLibrary>& libraries) {
  std::vector<std::string> names;
  for (size_t i = 0; found.ok() && i < found.value().size(); ++i)
    names.push_back(StrCat(gpu(static_cast<int>(i)), " ", found.value()[i].ToString()));
  CheckRows rows = {{"GPUs", found.ok() ? StrJoin(names) : StrCat("none: ", found.failure().message)}};
  for (const GpuLibrary& library : libraries)
    rows.push_back({library.name, library.version.ok()
                                      ? library.version.value()
                                      : StrCat("none: ", library.version.failure().message)});
  return rows;
}

}  // namespace runtime

void ParseFlags(int argc, char** argv, const std::string& usage) {
  runtime::ParseProgramFlags(argc, argv, usage, [] {
    runtime::CheckRows rows = runtime::RowsOfMachine();
    std::vector<GpuLibrary> libraries = FindGpuLibraries();
    if (!runtime::BuildHasNccl())
      std::erase_if(libraries, [](const GpuLibrary& library) { return library.name == "NCCL"; });
    for (runtime::CheckRow& row : runtime::RowsOfGpus(FindGpus(), libraries)) rows.push_back(std::move(row));
    return rows;
  });
}

}  // namespace sluice
