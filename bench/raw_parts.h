// The single measurements behind MeasureRaw, and the helpers that they share. Internal to raw*.cc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "base/buffer.h"
#include "raw.h"

namespace sluice::bench {

// raw_streams.cc
double TwoStreams(const RawOptions& options);
// raw_zmq.cc
enum class Receiver : uint8_t { kDrops, kAddsUp };  // what it does with a message; kAddsUp: to its own memory
double ZmqOneWay(const RawOptions& options, Receiver receiver);
enum class Echo : uint8_t { kSame, kSums };  // kSums: with the work of RawFigures::zmq_least
// Each sender keeps `in_flight` messages in flight.
LoopFigures ZmqBothWays(const RawOptions& options, size_t in_flight, Echo echo);
// Returns a number of messages in flight that keeps a stream busy and stays below ZeroMQ's high-water marks.
size_t MessagesInFlight(const RawOptions& options);
double ZmqRoundTrip(const RawOptions& options);
// raw_memory.cc
void AddTo(std::byte* a, const std::byte* b, size_t bytes);  // a += b, as floats
MemoryRates CopyRates(const RawOptions& options);
MemoryRates AddRates(const RawOptions& options);

[[noreturn]] void Broken(const char* what);  // throws Error(kUnavailable) with the reason from errno
double Now();                                // seconds of the steady clock
double Median(std::vector<double> values);

// A buffer that is used in steps of one message, round and round, so that the bytes of the next
// message are in no cache.
class Ring {
 public:
  Ring(size_t message, size_t total)
      : message_(message), count_(std::max<size_t>(1, total / message)), buffer_(message * count_) {
    std::memset(buffer_.data(), 1, buffer_.size());
  }
  std::byte* Next() { return buffer_.data() + message_ * (next_++ % count_); }
  size_t message() const { return message_; }

 private:
  size_t message_, count_, next_ = 0;
  Buffer buffer_;
};

// A child process that runs `body`. The destructor kills and reaps it; the kernel kills it if this process
// ends first.
class Child {
 public:
  explicit Child(const std::function<void()>& body);
  ~Child();
  double CpuSeconds() const;

 private:
  pid_t pid_;
};

}  // namespace sluice::bench
