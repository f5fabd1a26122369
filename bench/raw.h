// What the machine itself gives: the yardsticks beside every figure of kv_bench, measured in the same run
// over the same working set.
#pragma once

#include <cstddef>

namespace sluice::bench {

struct RawOptions {
  size_t message_bytes = 1 << 20;
  size_t working_set = 256u << 20;  // memory that senders and receivers walk through; larger than the caches
  double seconds = 0.5;             // of each measurement
  int repeats = 5;                  // the median counts
  bool local = false;               // Unix sockets in place of TCP
  bool round_trips = true;          // whether to measure zmq_rtt_us
  size_t call_bytes = 0;            // of calls made one at a time, for zmq_loop; 0: messages of message_bytes
};

struct LoopFigures {
  double gbit = 0;          // per direction
  double cpu_s_per_gb = 0;  // of both processes
};

// By number of threads.
struct MemoryRates {
  double one = 0, two = 0;  // GB/s
};

struct RawFigures {
  double two_streams_gbit = 0;    // one stream each way between two processes, both directions added
  double zmq_gbit = 0;            // one way, DEALER to ROUTER, zero-copy send
  double zmq_summed_gbit = 0;     // the same to a receiver that adds each message to memory of its own
  double zmq_both_ways_gbit = 0;  // whole messages to a ROUTER that sends each back; per direction
  // The same in messages as the store sends them, 1 MiB at most: what is left where nothing is done with
  // them.
  LoopFigures zmq_loop;
  double zmq_rtt_us = 0;  // DEALER/ROUTER round trip of 4 bytes, median
  MemoryRates copy;       // bytes copied
  MemoryRates add;        // a += b of floats: bytes of b
};

// Forks peers: call it before any thread exists.
RawFigures MeasureRaw(const RawOptions& options);

}  // namespace sluice::bench
