// What every Sluice process does around its machines: logging, signals, exit codes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "runtime/job_config.h"
#include "transport/zmq/traffic.h"
#include "wire/messages.h"

namespace sluice::runtime {

// Exit codes, beside 0.
inline constexpr int kExitFailed = 1;    // the job or this process failed
inline constexpr int kExitBadUsage = 2;  // flags or environment
inline constexpr int kExitSignal = 128;  // + the signal's number

// Random bits for incarnations, from the operating system.
uint64_t RandomBits();
std::string HostName();
// What the operating system counts for this process: cpu_us (of all threads, user and system), max_rss_kb.
wire::Counters ProcessCounters();
// And what its loops count: socket_bytes_sent, socket_bytes_received (messages alone; the kernel copies each
// once), bytes_copied (within the process).
wire::Counters NodeCounters(const transport::TrafficCounters& traffic);

// ZeroMQ takes a block of the heap for every message it reads. From here on the heap keeps up to 64 MiB of
// what becomes free for the messages to come; as it is set, it gives a round's blocks back to the system and
// takes them again page by page. For the whole process; mallopt(3). Thread-safe.
void KeepMessageMemory();

// Runs a whole process: logging is set up, an Error becomes a message on standard error and an exit code
// (kInvalidArgument: kExitBadUsage), and `body`'s result is returned otherwise.
int RunProcess(const std::string& program, const std::function<int(const JobConfig&)>& body);

}  // namespace sluice::runtime
