#include "runtime/process.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <iostream>
#include <mutex>
#include <random>

#include "base/cores.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::runtime {

uint64_t RandomBits() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

wire::Counters ProcessCounters() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto micros = [](const timeval& t) {
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000 + static_cast<uint64_t>(t.tv_usec);
  };
  return {{"cpu_us", micros(usage.ru_utime) + micros(usage.ru_stime)},
          {"max_rss_kb", static_cast<uint64_t>(usage.ru_maxrss)}};
}

wire::Counters NodeCounters(const transport::TrafficCounters& traffic) {
  wire::Counters counters = ProcessCounters();
  counters["socket_bytes_sent"] = traffic.sent();
  counters["socket_bytes_received"] = traffic.received();
  counters["bytes_copied"] = traffic.copied();
  return counters;
}

// These are the values that glibc's dynamic thresholds reach once a block of 32 MiB, the largest
// that they consider, has been freed. mallopt is called once: where a sanitizer replaces malloc,
// it is mallopt that initialises glibc's own, and two threads that call it at once both own its
// first arena, which the end of the second thread then finds without an owner.
void KeepMessageMemory() {
  static std::once_flag once;
  std::call_once(once, [] {
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
  });
}

int RunProcess(const std::string& program, const std::function<int(const JobConfig&)>& body) {
  try {
    const JobConfig config = JobConfig::FromEnv(Env::FromProcess(), CoreCount());
    InitLogging(program, config.verbose);
    return body(config);
  } catch (const Error& e) {
    std::cerr << WrapMessage(StrCat(program, ": error: ", e.what())) << std::endl;
    return e.code() == ErrorCode::kInvalidArgument ? kExitBadUsage : kExitFailed;
  } catch (const std::exception& e) {
    const std::string what = WithLimits(e);
    const bool limited = what != e.what();
    std::cerr << WrapMessage(StrCat(program, limited ? ": error: " : ": unexpected error: ", what))
              << std::endl;
    return kExitFailed;
  }
}

}  // namespace sluice::runtime
