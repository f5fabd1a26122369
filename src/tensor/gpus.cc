#include "tensor/gpus.h"

#include "base/strings.h"
#include "sluice/context.h"

namespace sluice {

std::string GpuInfo::ToString() const {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  return StrCat(name, " (", (memory_bytes + kGiB / 2) / kGiB, " GiB)");
}

Failure GpuUnavailable(int id, const Gpus& found) {
  std::vector<std::string> names;
  if (found.ok()) {
    for (const GpuInfo& info : found.value()) names.push_back(info.ToString());
  }
  return Fail(ErrorCode::kUnimplemented, gpu(id),
              ": this version of Sluice computes on CPUs alone, whatever is installed; use cpu contexts "
              "(--num-devices)",
              names.empty() ? "" : StrCat(". The GPUs here would be ", StrJoin(names)));
}

}  // namespace sluice
