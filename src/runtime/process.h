// What every Sluice process has around its machines: logging, exit
// codes and counters. All functions are thread-safe but RunProcess.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "runtime/job_config.h"
#include "transport/traffic_counters.h"
#include "wire/messages.h"

namespace sluice::runtime {

// Exit codes other than 0.
inline constexpr int kExitFailed = 1;    // the job or this process failed
inline constexpr int kExitBadUsage = 2;  // invalid flags or environment
inline constexpr int kExitSignal = 128;  // + the signal's number

// 64 random bits from the operating system, for incarnations.
uint64_t RandomBits();
std::string HostName();
// The operating system's counters of this process: cpu_us
// (user and system time of all threads), max_rss_kb.
wire::Counters ProcessCounters();
// ProcessCounters, and the counters of the process's loops: socket_bytes_sent, socket_bytes_received
// (messages only; the kernel copies each once) and bytes_copied (within the process).
wire::Counters NodeCounters(const transport::TrafficCounters& traffic);

// ZeroMQ allocates a heap block for every message that it reads. After this call the heap keeps up to 64
// MiB of freed memory for the messages to come; by default malloc returns a round's blocks to the system
// and faults them in again page by page. It applies to the whole process; see mallopt(3). Thread-safe.
void KeepMessageMemory();

// The body of main(): sets up logging, runs `body` and returns its result. An exception becomes a message
// on standard error and an exit code: kExitBadUsage for Error(kInvalidArgument), kExitFailed otherwise.
int RunProcess(const std::string& program, const std::function<int(const JobConfig&)>& body);

}  // namespace sluice::runtime
