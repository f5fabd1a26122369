// Marks a message about an error that another process found and reports itself. The log of every process has
// it, to explain why the process ended. launch.py (tools/launcher/echo.py) keeps messages with this beginning
// off the terminal, and does not name their processes as the cause of the failure.
#pragma once

#include <string>
#include <string_view>

#include "base/strings.h"

namespace sluice {

inline std::string ReportedBy(std::string_view who, std::string_view what) {
  return StrCat("told by ", who, ": ", what);
}

}  // namespace sluice
