// Information about the job that this process belongs to.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "sluice/error.h"

namespace sluice {

struct JobInfo {
  bool in_job = false;  // launch.py, or another launcher, has started this process as a part of a job
  int num_workers = 1;
  int num_servers = 0;
  int cpu_threads = 1;  // threads that this process should compute with: its share of the host's cores
};
// Returns what the environment says about the job; works before any store has joined it. Throws
// Error(kInvalidArgument), which names the variable, for an invalid environment.
JobInfo Job();

// Returns this worker's number in its job, from 0 on; 0 outside of a job. If no store has joined the job yet,
// this call joins it, which may take SLUICE_RENDEZVOUS_TIMEOUT. Throws Error as KVStore::Create does.
int Rank();

// Returns counters of the scheduler and of each server, by process ("scheduler", "server 0", ...) and name:
// "bytes_in", "bytes_out", "max_rss_kb", "cpu_us" and others. If no store has joined the job yet, this call
// joins it, which may take SLUICE_RENDEZVOUS_TIMEOUT; `timeout` counts from then on. JobCounters throws
// Error(kFailedPrecondition) outside of a job and after Finish, and Error(kDeadlineExceeded) when it takes
// too long.
std::map<std::string, std::map<std::string, uint64_t>> JobCounters(
    std::chrono::milliseconds timeout = std::chrono::seconds(30));

}  // namespace sluice
