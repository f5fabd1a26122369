// What a thread of a loop sleeps on: descriptors, an alarm, and a call from other threads. Internal to zmq/.
//
// Thread safety: Wake may be called from any thread; one thread sleeps; all else, by one thread at a time,
// also while that one sleeps.
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
  // More descriptors to be read; `tag` names one in Report. Of several pollers that watch one, the first told
  // of those that sleep is woken: the others only while it is awake (epoll_ctl(2), EPOLLEXCLUSIVE).
  struct Input {
    int fd;
    void* tag;
  };
  void Watch(const std::vector<Input>& inputs);
  // All of them, before any is closed: its number may be another's at once.
  void Forget();
  static constexpr int kMaxReady = 64;
  // Until something is to be done: how many descriptors say so, at most kMaxReady at once.
  int Sleep() { return Await(-1); }
  int Look() { return Await(0); }  // without waiting
  // After Sleep or Look, with what it returned: calls `on_readable(tag)` for inputs that can be read and were
  // not forgotten since.
  template <typename OnReadable>
  void Report(int count, OnReadable&& on_readable) {
    for (int i = 0; i < count; ++i) {
      const uint64_t name = events_[static_cast<size_t>(i)].data.u64;
      if (name == kAlarm) {
        AlarmRang();
      } else if (name != kWake && name >> 32 == generation_) {
        on_readable(watched_[static_cast<uint32_t>(name)].tag);
      }
    }
  }

 private:
  static constexpr uint64_t kWake = 0, kAlarm = 1;  // of generation 0

  int Await(int timeout_ms);
  void AlarmRang();
  void CloseAll();
  void Add(int fd, uint32_t events, uint64_t name) const;
  void Remove(int fd) const;

  int epoll_fd_ = -1;
  int wake_fd_ = -1;
  int alarm_fd_ = -1;
  Time alarm_ = Time::max();    // when it rings
  std::vector<Input> watched_;  // named by generation and place
  uint32_t generation_ = 1;
  std::array<epoll_event, kMaxReady> events_;  // of who sleeps
};

}  // namespace sluice::transport
