// Comma-separated numbers. Nothing here throws; a failure says which file, line and column.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "sluice/data_files.h"

namespace sluice {

inline constexpr uint64_t kMaxCsvBytes = uint64_t{4} << 30;

// `origin` names the text in failures. Options that contradict themselves are kInvalidArgument.
Result<std::shared_ptr<const ArrayDataset>> ParseCsv(std::string_view text, std::string_view origin,
                                                     const CsvOptions& options);

}  // namespace sluice
