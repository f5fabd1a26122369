// The library's version, as https://semver.org has it.
#pragma once

namespace sluice {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace sluice
