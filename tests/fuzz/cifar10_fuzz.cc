#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "data/cifar10.h"

// Parses the input as it is, and stretched over two records: so a short input reaches the second
// record's label without 3 KiB of pixels.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const sluice::Bytes bytes = std::as_bytes(std::span(data, size));
  sluice::Cifar10Batch batch;
  if (sluice::AppendCifar10(bytes, "input", &batch, static_cast<int64_t>(size / 3073)))
    SLUICE_CHECK(batch.labels.size() * 3073 == size);
  std::vector<std::byte> spread(2 * 3073);
  for (size_t i = 0; i < spread.size() && size > 0; ++i) spread[i] = bytes[i * size / spread.size()];
  sluice::Cifar10Batch two;
  if (!sluice::AppendCifar10(spread, "input", &two, 2)) return 0;
  SLUICE_CHECK(two.pixels.size() == 2 * 3072);
  SLUICE_CHECK(std::all_of(two.labels.begin(), two.labels.end(), [](uint8_t label) { return label < 10; }));
  return 0;
}
