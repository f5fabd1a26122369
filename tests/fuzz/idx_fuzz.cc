#include <cstdint>
#include <numeric>

#include "base/check.h"
#include "data/idx.h"
#include "data/mnist.h"

// An accepted array must have as many values as its dimensions say. Joining it with labels, and with itself
// as labels, must succeed or be refused.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const sluice::Bytes bytes = std::as_bytes(std::span(data, size));
  const auto array = sluice::ParseIdx(bytes, "input", 1 << 20);
  if (!array) return 0;
  const auto& dims = array.value().dims;
  const int64_t product = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  SLUICE_CHECK(static_cast<int64_t>(array.value().values.size()) == product);
  sluice::IdxArray labels;
  labels.values.assign(static_cast<size_t>(dims[0]) < size ? static_cast<size_t>(dims[0]) : size, 9);
  labels.dims = {static_cast<int64_t>(labels.values.size())};
  const auto joined = sluice::JoinMnist(array.value(), "images", labels, "labels");
  if (joined) SLUICE_CHECK(joined.value()->size() == dims[0]);
  (void)sluice::JoinMnist(array.value(), "images", array.value(), "labels").ok();
  return 0;
}
