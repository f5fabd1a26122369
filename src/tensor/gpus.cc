#include "tensor/gpus.h"

#include "base/strings.h"
#include "sluice/context.h"

namespace sluice {

std::string GpuInfo::ToString() const {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  return StrCat(name, " (", (memory_bytes + kGiB / 2) / kGiB, " GiB)");
}

Failure WhyNotGpu(int id, const Gpus& found) {
  const Context asked = gpu(id);
  if (!found.ok())
    return Fail(found.failure().code, asked, ": ", found.failure().message,
                "; use cpu contexts (--num-devices)");
  const std::vector<GpuInfo>& gpus = found.value();
  if (static_cast<size_t>(id) < gpus.size())
    return Fail(ErrorCode::kUnimplemented, asked, " is ", gpus[id].ToString(),
                ", but this version of Sluice computes on CPUs alone; use cpu contexts (--num-devices)");
  std::vector<std::string> names;
  for (const GpuInfo& info : gpus)
    names.push_back(StrCat(gpu(static_cast<int>(names.size())), " ", info.ToString()));
  return Fail(ErrorCode::kNotFound, asked, ": this process sees ", StrJoin(names),
              " alone; CUDA_VISIBLE_DEVICES chooses which");
}

}  // namespace sluice
