// The job that this process belongs to.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "sluice/error.h"

namespace sluice {

struct JobInfo {
  bool in_job = false;  // launch.py, or another launcher, has started this process as a part of one
  int num_workers = 1;
  int num_servers = 0;
  int cpu_threads = 1;  // that this process should compute with: its share of the host's cores
};
// What the environment says, before any store has joined the job. Throws Error(kInvalidArgument) that names a
// bad variable.
JobInfo Job();

// Counters of the job's processes but the other workers, by process ("scheduler", "server 0", ...) and name:
// "bytes_in", "bytes_out", "max_rss_kb", "cpu_us" and others. Joins the job, where no store has: as long as
// SLUICE_RENDEZVOUS_TIMEOUT says, after which `timeout` begins. Throws Error(kFailedPrecondition) outside of
// one, and after Finish, and Error(kDeadlineExceeded).
std::map<std::string, std::map<std::string, uint64_t>> JobCounters(
    std::chrono::milliseconds timeout = std::chrono::seconds(30));

}  // namespace sluice
