// ParseFlags (sluice/flags.h) for a program that says itself what it finds on the machine.
#pragma once

#include <string>

#include "runtime/build_check.h"

namespace sluice::runtime {

// As ParseFlags; `machine` is called for `--check-build`.
void ParseProgramFlags(int argc, char** argv, const std::string& usage, CheckRows (*machine)());

}  // namespace sluice::runtime
