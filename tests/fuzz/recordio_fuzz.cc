#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "data/recordio.h"

// Reads the input as records, as an image record's header, and as an index. Records that FindRecords finds
// must be readable, adjacent, and no larger than the input.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;  // NOLINT(google-build-using-namespace)
  const Bytes bytes = std::as_bytes(std::span(data, size));
  const RecordSource source{"input", size, [&](uint64_t offset, MutableBytes into) {
                              SLUICE_CHECK(offset <= size && into.size() <= size - offset);
                              if (!into.empty()) std::memcpy(into.data(), data + offset, into.size());
                              return Status::Ok();
                            }};
  if (const auto offsets = FindRecords(source)) {
    uint64_t at = 0;
    for (const uint64_t offset : offsets.value()) {
      SLUICE_CHECK(offset == at);
      const Record record = ReadRecord(source, offset).OrThrow();
      SLUICE_CHECK(record.end > at && record.contents.size() < size);
      at = record.end;
      const auto head = ReadRecordHead(source, offset, kImageRecordHead).OrThrow();
      SLUICE_CHECK(std::equal(head.begin(), head.end(), record.contents.begin()));
      const auto image = ParseImageRecord(record.contents, "input", offset, 10);
      const auto label = ParseImageRecord(head, "input", offset, 10);
      SLUICE_CHECK(image.ok() == label.ok());
      if (image) SLUICE_CHECK(image.value().label == label.value().label && image.value().label < 10);
    }
    SLUICE_CHECK(at == size);
  }
  (void)ReadRecord(source, size / 2, 1 << 10).ok();
  if (const auto positions = ParseRecordIndex(AsText(bytes), "input", 1 << 10)) {
    for (const uint64_t position : positions.value()) SLUICE_CHECK(position < 1 << 10);
  }
  return 0;
}
