#include "runtime/trace/trace_events.h"

#include <map>

#include "base/strings.h"

namespace sluice::runtime {
namespace {

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : StrPrintable(text))
    out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return out + "\"";
}

// Microseconds, with the nanoseconds behind the point.
std::string Microseconds(int64_t nanoseconds) {
  const std::string rest = std::to_string(1000 + nanoseconds % 1000);
  return StrCat(nanoseconds / 1000, ".", rest.substr(1));
}

int64_t Nanoseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

std::string Metadata(const char* what, int64_t pid, int64_t tid, const std::string& name) {
  return StrCat("{\"ph\":\"M\",\"name\":\"", what, "\",\"pid\":", pid, ",\"tid\":", tid,
                ",\"args\":{\"name\":", Quoted(name), "}}");
}

}  // namespace

std::string TraceText(const std::string& process, int64_t pid, const std::vector<TraceEvent>& events,
                      int64_t left_out) {
  std::map<std::string, int64_t> tracks;
  for (const TraceEvent& event : events) tracks.emplace(event.track, 0);
  std::string text = StrCat("{\"otherData\":{\"events left out\":\"", left_out, "\"},\n\"traceEvents\":[\n",
                            Metadata("process_name", pid, 0, process));
  int64_t next = 0;
  for (auto& [name, tid] : tracks) {
    tid = ++next;
    text += ",\n" + Metadata("thread_name", pid, tid, name);
    text += StrCat(",\n{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":", pid, ",\"tid\":", tid,
                   ",\"args\":{\"sort_index\":", tid, "}}");
  }
  for (const TraceEvent& event : events) {
    text += StrCat(",\n{\"ph\":\"X\",\"name\":", Quoted(event.name), ",\"pid\":", pid,
                   ",\"tid\":", tracks.at(event.track),
                   ",\"ts\":", Microseconds(Nanoseconds(event.began.time_since_epoch())),
                   ",\"dur\":", Microseconds(Nanoseconds(event.ended - event.began)), "}");
  }
  return text + "\n]}\n";
}

}  // namespace sluice::runtime
