// Command lines on top of gflags, with what gflags gets wrong mended: dashes and underscores are alike, stray
// arguments, the value in `--shuffle false` and non-finite numbers are errors, and so is an unknown flag
// (with the nearest known one).
//
//   DEFINE_double(lr, 0.05, "Learning rate.");   // gflags/gflags.h
//
//   int main(int argc, char** argv) {
//     return sluice::RunProgram(argc, argv, [&] {
//       sluice::ParseFlags(argc, argv, "Trains a network.");
//       ...
#pragma once

#include <string>

#include "sluice/error.h"

namespace sluice {

// Sets the gflags defined by the program (in any file that is not a library's). Throws
// Error(kInvalidArgument) that names the argument.
// `--help` (or -h): prints `usage` and every flag of the program with its default, 80 columns wide, and exits
// 0.
void ParseFlags(int argc, char** argv, const std::string& usage);

// What `--help` prints.
std::string FlagsHelp(const std::string& program, const std::string& usage);

}  // namespace sluice
