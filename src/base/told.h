// Messages about what another process has found out, which says it itself. The log of each process tells why
// it ended; on the terminal launch.py leaves out what begins so (tools/launcher/echo.py), and blames nobody
// who was only told.
#pragma once

#include <string>
#include <string_view>

#include "base/strings.h"

namespace sluice {

inline std::string ToldBy(std::string_view who, std::string_view what) {
  return StrCat("told by ", who, ": ", what);
}

}  // namespace sluice
