// Measures the limits of the machine and how often threads sleep, to compare the costs of a step with.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace sluice::bench {

// The limits of cpu(0) with its share of the cores; each is the best of several repeats.
struct Limits {
  double gflops = 0;         // products of square matrices, the best of several sizes
  double memory_gbytes = 0;  // GB/s read and written by copies between arrays of 128 MiB
  double cache_gbytes = 0;   // the same between arrays of 256 KiB
};
Limits MeasureLimits();

// Returns the voluntary context switches of this process's threads so far, summed by thread name.
// Threads that have ended are not included.
std::map<std::string, uint64_t> VoluntarySwitches();

}  // namespace sluice::bench
