// What a thread of a loop sleeps on: descriptors, an alarm, and calls of Wake. Internal to zmq/.
//
// Thread safety: Wake may be called from any thread; one thread sleeps; all other methods may be called by
// one thread at a time, also while that one sleeps.
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

  // Ends the Sleep that is in progress, or else the next one. It may end one more.
  void Wake();
  // Makes Sleep end at `when` at the latest. An alarm is never moved to a later time: one that was set fires
  // at its own time, and is cleared then.
  void SetAlarm(Time when);
  // Adds descriptors to watch for reading; `tag` names one in Report. When several pollers watch a
  // descriptor, the kernel wakes the first of those that sleep, in the order in which Watch was called; so a
  // later one wakes only while the earlier ones are awake (epoll_ctl(2), EPOLLEXCLUSIVE).
  struct Input {
    int fd;
    void* tag;
  };
  void Watch(const std::vector<Input>& inputs);
  // Stops watching all descriptors. Must be called before one of them is closed, because its number may be
  // reused at once.
  void UnwatchAll();
  static constexpr int kMaxReady = 64;
  // Waits for a descriptor, the alarm or Wake. Returns how many of these are ready, at most kMaxReady; -1
  // when a signal came.
  int Sleep() { return Await(-1); }
  int Poll() { return Await(0); }  // as Sleep, without waiting
  // To be called after Sleep or Poll with the result: calls `on_readable(tag)` for the inputs that can be
  // read and that were not forgotten since.
  template <typename OnReadable>
  void Report(int count, OnReadable&& on_readable) {
    for (int i = 0; i < count; ++i) {
      const uint64_t name = events_[static_cast<size_t>(i)].data.u64;
      if (name == kAlarm) {
        OnAlarm();
      } else if (name != kWake && name >> 32 == generation_) {
        on_readable(watched_[static_cast<uint32_t>(name)].tag);
      }
    }
  }

 private:
  static constexpr uint64_t kWake = 0, kAlarm = 1;  // names of generation 0, which no input has

  int Await(int timeout_ms);
  void OnAlarm();
  void CloseAll();
  void Add(int fd, uint32_t events, uint64_t name) const;
  void Remove(int fd) const;

  int epoll_fd_ = -1;
  int wake_fd_ = -1;
  int alarm_fd_ = -1;
  Time alarm_ = Time::max();    // when the alarm fires
  std::vector<Input> watched_;  // an input's name: the generation and its index here
  uint32_t generation_ = 1;
  std::array<epoll_event, kMaxReady> events_;  // used by the thread that sleeps
};

}  // namespace sluice::transport
