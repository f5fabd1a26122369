// Measures the machine on demand, beside a program that has threads: raw.h forks, so a process of its own
// does it, started before the first thread.
#pragma once

#include <sys/types.h>

#include "raw.h"

namespace sluice::bench {

class Yardstick {
 public:
  Yardstick();  // forks
  ~Yardstick();
  // The program should idle meanwhile. Throws Error.
  RawFigures Measure(const RawOptions& options);

 private:
  int socket_ = -1;
  pid_t pid_ = -1;
};

}  // namespace sluice::bench
