// Measures what the machine achieves without Sluice: streams, ZeroMQ and memory. kv_bench prints these
// figures next to its own, from the same run and over a working set of the same size.
#pragma once

#include <cstddef>

namespace sluice::bench {

struct RawOptions {
  size_t message_bytes = 1 << 20;
  size_t working_set = 256u << 20;  // bytes that each sender or receiver cycles through; exceeds the caches
  double seconds = 0.5;             // length of each repeat
  int repeats = 5;                  // the median is reported
  bool local = false;               // Unix sockets instead of TCP
  bool round_trips = true;          // whether to measure zmq_rtt_us
  // Number of processes in the measurements over ZeroMQ. Each sender has a working set of its own and sends
  // its messages to the receivers in turn.
  size_t senders = 1, receivers = 1;
  // For zmq_loop and zmq_least. If calls > 0, each sender has `calls` calls of `call_bytes` bytes in flight;
  // a call is split evenly over the receivers, in messages of at most 1 MiB. If calls == 0, a sender has as
  // many messages of message_bytes (at most 1 MiB) in flight as keep a stream busy.
  size_t calls = 0, call_bytes = 0;
  bool only_loops = false;  // measures zmq_loop and zmq_least only; all other figures stay 0
};

struct LoopFigures {
  double gbit = 0;          // Gbit/s per direction, all senders together
  double cpu_s_per_gb = 0;  // processor time of all processes
};

// GB/s by number of threads.
struct MemoryRates {
  double one = 0, two = 0;
};

struct RawFigures {
  double two_streams_gbit = 0;    // one stream each way between two processes, both directions added
  double zmq_gbit = 0;            // one way, DEALER to ROUTER, zero-copy send; all senders together
  double zmq_summed_gbit = 0;     // the same, and receivers add each message to memory of their own
  double zmq_both_ways_gbit = 0;  // ROUTERs send each message back whole; per direction
  // Both ways, in messages of the size that the store uses, at most 1 MiB. In zmq_loop the receiver sends
  // each message back untouched. zmq_least, measured if calls > 0, adds the least work that a parameter
  // server must do: the sender copies a call's keys into one message, the receiver adds it to its sums and
  // answers with a copy of them, and the sender copies the answer to its destination.
  LoopFigures zmq_loop, zmq_least;
  double zmq_rtt_us = 0;  // DEALER/ROUTER round trip of 4 bytes, median
  MemoryRates copy;       // counts the bytes copied
  MemoryRates add;        // a += b with floats; counts the bytes of b
};

// Measures. It forks peer processes, so no other thread may exist. Throws Error(kUnavailable) if a
// system call fails.
RawFigures MeasureRaw(const RawOptions& options);

}  // namespace sluice::bench
