// Reading and making arrays of whole numbers (numbers.h). Nothing is enqueued on a stream that computes:
// embeddings and Trainers call this while a step is under way.
#include "tensor/numbers.h"

#include <span>

#include "base/strings.h"
#include "tensor/access.h"

namespace sluice {
namespace {

template <typename T>
std::vector<int64_t> Converted(const NDArray& host) {
  const auto* values = reinterpret_cast<const T*>(HostBytes(host).data());
  std::vector<int64_t> numbers(static_cast<size_t>(host.size()));
  for (size_t i = 0; i < numbers.size(); ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      constexpr T kLimit = 0x1p63f;
      numbers[i] = values[i] > -kLimit && values[i] < kLimit ? static_cast<int64_t>(values[i]) : -1;
    } else {
      numbers[i] = values[i];
    }
  }
  return numbers;
}

}  // namespace

std::vector<int64_t> ReadNumbers(const NDArray& array) {
  const NDArray host = HostArray(array);
  host.WaitToRead();
  switch (host.dtype()) {
    case DType::kInt64:
      return Converted<int64_t>(host);
    case DType::kInt32:
      return Converted<int32_t>(host);
    case DType::kUInt8:
      return Converted<uint8_t>(host);
    case DType::kFloat32:
      return Converted<float>(host);
    default:
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat("ids are ", Name(host.dtype()), "; int64, int32, uint8 or float32 is expected"));
  }
}

NDArray NumberArray(const std::vector<int64_t>& numbers, const Shape& shape) {
  return NDArray::From(std::span<const int64_t>(numbers), shape, cpu_pinned(0));
}

NDArray NumberArray(const std::vector<int64_t>& numbers) {
  return NumberArray(numbers, {static_cast<int64_t>(numbers.size())});
}

}  // namespace sluice
