#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "data/csv.h"

// The first two bytes are options, the rest is the text. An accepted text must be a whole table of finite
// numbers.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  sluice::CsvOptions options;
  options.label_column = static_cast<int8_t>(data[0]);
  options.has_header = (data[1] & 1) != 0;
  options.delimiter = (data[1] & 2) != 0 ? '\t' : ',';
  options.num_classes = (data[1] & 4) != 0 ? 5 : 0;
  if ((data[1] & 8) != 0) options.label_columns = {options.label_column, (data[1] >> 4) - 8};
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto parsed = sluice::ParseCsv(text, "input", options);
  if (!parsed) return 0;
  const sluice::ArrayDataset& table = *parsed.value();
  SLUICE_CHECK(table.size() > 0 && static_cast<size_t>(table.size()) <= text.size());
  for (int64_t i = 0; i < table.size(); ++i) {
    if (table.label_shape()) {
      for (const float value : table.label(i)) SLUICE_CHECK(std::isfinite(value));
    } else {
      SLUICE_CHECK(table.Label(i) >= 0 && table.Label(i) < table.num_classes());
    }
    for (const float value : table.sample(i)) SLUICE_CHECK(std::isfinite(value));
  }
  return 0;
}
