#include "tensor/gpus.h"

#include "base/strings.h"
#include "sluice/context.h"

namespace sluice {

std::string GpuInfo::ToString() const {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  return StrCat(name, " (", (memory_bytes + kGiB / 2) / kGiB, " GiB)");
}

Failure GpuUnavailable(int id, const Gpus& found) {
  constexpr const char* kInstead = "; or use cpu contexts (--num-devices)";
  if (!found.ok()) return Fail(found.failure().code, gpu(id), ": ", found.failure().message, kInstead);
  std::vector<std::string> names;
  for (size_t i = 0; i < found.value().size(); ++i)
    names.push_back(StrCat(gpu(static_cast<int>(i)), " ", found.value()[i].ToString()));
  return Fail(ErrorCode::kInvalidArgument, gpu(id), ": this process sees ", names.size(), " GPUs, ",
              StrJoin(names), "; CUDA_VISIBLE_DEVICES may hide others", kInstead);
}

}  // namespace sluice
