// Parsing comma-separated numbers. ParseCsv does not throw; a failure names file, line and column.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "sluice/data_files.h"

namespace sluice {

inline constexpr uint64_t kMaxCsvBytes = uint64_t{4} << 30;

// Parses `text`, which failures call `origin`. A failure is kDataLoss for the text, and kInvalidArgument for
// options that contradict each other or do not fit the text.
Result<std::shared_ptr<const ArrayDataset>> ParseCsv(std::string_view text, std::string_view origin,
                                                     const CsvOptions& options);

}  // namespace sluice
