// What a loop sleeps on: descriptors, an alarm, and a call from other threads. Internal to zmq/.
//
// Thread safety: Wake may be called from any thread; SetAlarm while another one sleeps; all else from one.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <vector>

#include "base/clock.h"

namespace sluice::transport {

class Poller {
 public:
  // Throws Error(kResourceExhausted).
  Poller();
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // Ends the Sleep that is under way, or the next one. May end one more.
  void Wake();
  // Sleep ends at `when` at the latest. Only ever earlier: an alarm that was set rings, and is then
  // forgotten.
  void SetAlarm(Time when);
  // More descriptors to be read; `tag` names one in Report.
  struct Input {
    int fd;
    void* tag;
  };
  void Watch(const std::vector<Input>& inputs);
  // All of them, before any is closed: its number may be another's at once.
  void Forget();
  // Until something is to be done: how many descriptors say so.
  int Sleep();
  // After Sleep, with what it returned: calls `on_readable(tag)` for inputs that can be read.
  template <typename OnReadable>
  void Report(int count, OnReadable&& on_readable) {
    for (int i = 0; i < count; ++i) {
      void* tag = events_[static_cast<size_t>(i)].data.ptr;
      if (tag == &alarm_) {
        AlarmRang();
      } else if (tag != nullptr) {
        on_readable(tag);
      }
    }
  }

 private:
  void AlarmRang();
  void Add(int fd, uint32_t events, void* tag) const;

  int epoll_fd_ = -1;
  int wake_fd_ = -1;  // its tag is null
  int alarm_fd_ = -1;
  Time alarm_ = Time::max();  // when it rings
  std::vector<int> watched_;
  std::array<epoll_event, 64> events_;
};

}  // namespace sluice::transport
