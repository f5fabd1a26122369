// Command-line flags on top of gflags, with a stricter parser: dashes and underscores in names are equal;
// stray arguments, the value in `--shuffle false`, numbers that are not finite and unknown flags are errors.
// The error for an unknown flag suggests the nearest known one.
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

// Sets the gflags that the program defines, which are those of all files but gflags' and glog's own. Throws
// Error(kInvalidArgument), which names the wrong argument. With `--help` or `-h` it prints `usage` and every
// flag of the program with its default, 80 columns wide, and exits with code 0; so it does with `--version`,
// and with `--check-build`. That prints what this build of Sluice has (the compiler, CUDA, NCCL, the types of
// stores) and what this machine has (cores, GPUs, the libraries that GPUs need).
void ParseFlags(int argc, char** argv, const std::string& usage);

// Returns what `--help` prints.
std::string FlagsHelp(const std::string& program, const std::string& usage);

}  // namespace sluice
