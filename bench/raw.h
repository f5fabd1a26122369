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
  // Processes of the measurements over ZeroMQ: senders, each with a working set, and receivers, among which
  // each sender's messages go round.
  size_t senders = 1, receivers = 1;
  // For the loops: a sender has so many calls of so many bytes under way, each one message to every receiver;
  // 0 calls: messages of message_bytes, as many as keep a stream busy.
  size_t calls = 0, call_bytes = 0;
  bool only_loops = false;  // leaves all else at 0
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
  double zmq_gbit = 0;            // one way, DEALER to ROUTER, zero-copy send; of all senders
  double zmq_summed_gbit = 0;     // the same to receivers that add each message to memory of their own
  double zmq_both_ways_gbit = 0;  // whole messages to ROUTERs that send each back; per direction
  // The same in messages as the store sends them, 1 MiB at most: what is left where nothing is done with
  // them, and, of calls, with the least that is: a call's keys are gathered in one message, the receiver adds
  // them up and answers with a copy of its sums, which is copied where it belongs.
  LoopFigures zmq_loop, zmq_least;
  double zmq_rtt_us = 0;  // DEALER/ROUTER round trip of 4 bytes, median
  MemoryRates copy;       // bytes copied
  MemoryRates add;        // a += b of floats: bytes of b
};

// Forks peers: call it before any thread exists.
RawFigures MeasureRaw(const RawOptions& options);

}  // namespace sluice::bench
