// What kv_bench prints of its measurements.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "raw.h"

namespace sluice::bench {

nlohmann::json ToJson(const RawFigures& raw);
void PrintRaw(const RawFigures& raw, size_t message_bytes);

// What stands above the lines. `about`: "dist_sync, accumulate, tcp, 2 workers".
void PrintHead(const std::string& about);
// A measurement, as --json has it.
void PrintLine(const nlohmann::json& line);

}  // namespace sluice::bench
