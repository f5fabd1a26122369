#include "base/log.h"

namespace sluice {
void InitLogging(const std::string& program, int verbosity) {
  FLAGS_logtostderr = true;
  FLAGS_v = verbosity;
  if (google::IsGoogleLoggingInitialized()) return;
  static std::string name;  // glog keeps the pointer for the life of the process
  name = program;
  google::InitGoogleLogging(name.c_str());
}

bool LogLimiter::Allow(Time now, uint64_t* swallowed) {
  if (now - window_start_ >= interval_) {
    window_start_ = now;
    used_ = 0;
  }
  if (used_ >= per_interval_) {
    ++swallowed_;
    return false;
  }
  ++used_;
  *swallowed = swallowed_;
  swallowed_ = 0;
  return true;
}

}  // namespace sluice
