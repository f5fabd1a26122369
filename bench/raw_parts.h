// The parts of MeasureRaw, and what they share. Internal to raw*.cc.
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
enum class Receiver : uint8_t { kDrops, kAddsUp };  // each message, to memory of its own
double ZmqOneWay(const RawOptions& options, Receiver receiver);
enum class Echo : uint8_t { kSame, kSums };  // kSums: the least work of RawFigures
// Each sender has so many messages under way.
LoopFigures ZmqBothWays(const RawOptions& options, size_t under_way, Echo echo);
// So many keep a stream busy, and never reach ZeroMQ's own bound of messages.
size_t Window(const RawOptions& options);
double ZmqRoundTrip(const RawOptions& options);
// raw_memory.cc
void AddTo(std::byte* a, const std::byte* b, size_t bytes);  // of floats
MemoryRates CopyRates(const RawOptions& options);
MemoryRates AddRates(const RawOptions& options);

[[noreturn]] void Broken(const char* what);  // throws Error: errno says why
double Now();                                // seconds
double Median(std::vector<double> values);

// Memory walked through in steps of one message, so that no message finds its bytes in a cache.
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

// A child process that ends with this one; killed and reaped at the end of the scope.
class Child {
 public:
  explicit Child(const std::function<void()>& body);
  ~Child();
  double CpuSeconds() const;

 private:
  pid_t pid_;
};

}  // namespace sluice::bench
