// Reading and making arrays of whole numbers (numbers.h). Nothing is enqueued on a stream that computes:
// embeddings and Trainers call this while a step is under way.
#include "autograd/numbers.h"

#include <algorithm>
#include <cstring>

#include "base/strings.h"
#include "tensor/access.h"
#include "tensor/with_numbers.h"

namespace sluice {
namespace {

template <typename T>
int64_t WholeNumber(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    constexpr T kLimit = 0x1p63f;
    return value > -kLimit && value < kLimit ? static_cast<int64_t>(value) : -1;
  } else {
    return value;
  }
}

}  // namespace

std::vector<int64_t> ReadNumbers(const NDArray& array) {
  const DType type = array.dtype();
  if (type != DType::kInt64 && type != DType::kInt32 && type != DType::kUInt8 && type != DType::kFloat32)
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("ids are ", Name(type), "; int64, int32, uint8 or float32 is expected"));
  const NDArray host = HostArray(array);
  host.WaitToRead();
  std::vector<int64_t> numbers(static_cast<size_t>(host.size()));
  WithNumbers(type, HostBytes(host).data(), [&](const auto* values) {
    std::transform(values, values + numbers.size(), numbers.begin(),
                   [](auto value) { return WholeNumber(value); });
  });
  return numbers;
}

NDArray NumberArray(const std::vector<int64_t>& numbers, const Shape& shape) {
  NDArray array = NDArray::Empty(shape, cpu_pinned(0), DType::kInt64);
  const MutableBytes bytes = MutableHostBytes(array);
  if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return array;
}

NDArray NumberArray(const std::vector<int64_t>& numbers) {
  return NumberArray(numbers, {static_cast<int64_t>(numbers.size())});
}

}  // namespace sluice
