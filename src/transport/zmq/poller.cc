#include "transport/zmq/poller.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "base/limits.h"
#include "sluice/error.h"

namespace sluice::transport {

Poller::Poller()
    : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      alarm_fd_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (epoll_fd_ < 0 || wake_fd_ < 0 || alarm_fd_ < 0) {
    const std::string limits = DescriptorLimitText();
    CloseAll();
    throw Error(ErrorCode::kResourceExhausted, StrCat("a loop cannot open its descriptors: ", limits));
  }
  // Edge-triggered: epoll reports every write once, so no thread needs to read the counter.
  Add(wake_fd_, EPOLLIN | EPOLLET, kWake);
  Add(alarm_fd_, EPOLLIN, kAlarm);
}

Poller::~Poller() {
  CloseAll();
}

void Poller::CloseAll() {
  for (const int fd : {epoll_fd_, wake_fd_, alarm_fd_}) {
    if (fd >= 0) close(fd);
  }
}

void Poller::Add(int fd, uint32_t events, uint64_t name) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = name;
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0) return;
  SLUICE_CHECK(errno == ENOSPC || errno == ENOMEM) << "epoll: errno " << errno;
  throw Error(ErrorCode::kResourceExhausted,
              "a loop cannot watch one more descriptor: see /proc/sys/fs/epoll/max_user_watches");
}

void Poller::Remove(int fd) const {
  SLUICE_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr) == 0) << "epoll: errno " << errno;
}

void Poller::Wake() {
  const uint64_t one = 1;
  // A full counter, after 2^64 - 1 calls, is emptied here.
  uint64_t count;
  if (write(wake_fd_, &one, sizeof one) == sizeof one) return;
  if (read(wake_fd_, &count, sizeof count) == sizeof count) Wake();
}

void Poller::SetAlarm(Time when) {
  // An earlier alarm stays: setting the processor's timer at every sleep would cost more than all else in it.
  if (when >= alarm_) return;
  alarm_ = when;
  const auto since_boot = std::max<int64_t>(when.time_since_epoch().count(), 1);  // 0 would switch it off
  itimerspec at{};
  at.it_value = {static_cast<time_t>(since_boot / 1'000'000'000),
                 static_cast<long>(since_boot % 1'000'000'000)};
  SLUICE_CHECK(timerfd_settime(alarm_fd_, TFD_TIMER_ABSTIME, &at, nullptr) == 0)
      << "timerfd: errno " << errno;
}

void Poller::OnAlarm() {
  uint64_t count;
  [[maybe_unused]] const ssize_t drained = read(alarm_fd_, &count, sizeof count);
  alarm_ = Time::max();
}

void Poller::UnwatchAll() {
  for (const Input& input : watched_) Remove(input.fd);
  watched_.clear();
  ++generation_;
}

void Poller::Watch(const std::vector<Input>& inputs) {
  for (const Input& input : inputs) {
    Add(input.fd, EPOLLIN | EPOLLEXCLUSIVE, uint64_t{generation_} << 32 | watched_.size());
    watched_.push_back(input);
  }
}

int Poller::Await(int timeout_ms) {
  return epoll_wait(epoll_fd_, events_.data(), static_cast<int>(events_.size()), timeout_ms);
}

}  // namespace sluice::transport
