#include "base/log.h"

#include <iomanip>

#include "base/strings.h"

namespace sluice {
namespace {

// Writes the time, "09:07:05.042", and the severity unless it is INFO. The prefix is short because launch.py
// puts the process's name before it, and a terminal has 80 columns.
void WritePrefix(std::ostream& out, const google::LogMessageInfo& message, void*) {
  const auto& time = message.time;
  out << std::setfill('0') << std::setw(2) << time.hour() << ':' << std::setw(2) << time.min() << ':'
      << std::setw(2) << time.sec() << '.' << std::setw(3) << time.usec() / 1000 << std::setfill(' ');
  const std::string severity = message.severity;
  if (severity != "INFO") out << ' ' << severity << ':';
}

}  // namespace

void InitLogging(const std::string& program, int verbosity) {
  FLAGS_logtostderr = true;
  FLAGS_v = verbosity;
  if (google::IsGoogleLoggingInitialized()) return;
  static std::string name;  // glog keeps the pointer for the life of the process
  name = program;
  google::InitGoogleLogging(name.c_str(), &WritePrefix);
}

bool LogLimiter::Allow(Time now, uint64_t* suppressed) {
  if (now - window_start_ >= interval_) {
    window_start_ = now;
    used_ = 0;
  }
  if (used_ >= per_interval_) {
    ++swallowed_;
    return false;
  }
  ++used_;
  *suppressed = swallowed_;
  swallowed_ = 0;
  return true;
}

std::string SuppressedText(uint64_t suppressed) {
  return suppressed == 0 ? "" : StrCat(" (", suppressed, " more lines kept back)");
}

}  // namespace sluice
