// Measures the machine on demand for a program that has threads. MeasureRaw (raw.h) forks and needs a process
// without threads, so a process of its own, started before the first thread, runs it.
#pragma once

#include <sys/types.h>

#include "raw.h"

namespace sluice::bench {

class Yardstick {
 public:
  // Forks the measuring process. Call it before any thread exists. Throws Error(kUnavailable).
  Yardstick();
  ~Yardstick();
  // Returns the figures. The program should be idle meanwhile. Throws Error(kUnavailable) if the measuring
  // process has ended.
  RawFigures Measure(const RawOptions& options);

 private:
  int socket_ = -1;
  pid_t pid_ = -1;
};

}  // namespace sluice::bench
