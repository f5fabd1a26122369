// What a machine can do at most, and how often its threads sleep: what the figures of a step stand beside.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace sluice::bench {

// Of cpu(0)'s share of the cores; each the best of some repeats.
struct Limits {
  double gflops = 0;         // products of square matrices, the best of some sizes
  double memory_gbytes = 0;  // per second: copying between arrays of 128 MiB, read and written
  double cache_gbytes = 0;   // per second: the same between arrays of 256 KiB
};
Limits MeasureLimits();

// Voluntary context switches of this process's threads so far, by thread name; those of one name together.
std::map<std::string, uint64_t> VoluntarySwitches();

}  // namespace sluice::bench
