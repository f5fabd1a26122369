// Prints the measurements of kv_bench.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "raw.h"

namespace sluice::bench {

nlohmann::json ToJson(const RawFigures& raw);
void PrintRaw(const RawFigures& raw, size_t message_bytes);

// Prints the explanation and the table head. `about` is a text such as "dist_sync, accumulate,
// tcp, 2 workers".
void PrintHead(const std::string& about);
// Prints one measurement as a line of the table. `line` is the object that --json writes.
void PrintLine(const nlohmann::json& line);

}  // namespace sluice::bench
