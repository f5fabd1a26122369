// The operating system's limits of descriptors, threads and memory. The Reserve and Require functions check
// or raise a limit before something needs it; the texts explain a limit once it was hit. All are thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice {

// --- Descriptors ---

// Raises the soft limit (RLIMIT_NOFILE) so that this process can open `needed` more descriptors, or
// `preferred` more if that is larger and the hard limit allows it. Children that it forks get the old
// limit back. Throws Error(kResourceExhausted), with `what_for`, the numbers, the limit and what to do,
// if `needed` more cannot be opened.
void ReserveDescriptors(uint64_t needed, const std::string& what_for, uint64_t preferred = 0);
// Whether the errno `error` says that the process or the system is out of descriptors.
bool MeansNoDescriptor(int error);
// Whether this process cannot open a descriptor now; it tries.
bool DescriptorsAreUsedUp();
// Returns "256 of 256 are open (...)" and what raises the limit.
std::string DescriptorLimitText();

// --- Threads ---

// Throws Error(kResourceExhausted), which names the variable or limit, if new threads would have stacks that
// are too small for `what_for`. ThreadReservation (threads.h) calls it for threads that a library starts.
void RequireStacks(const std::string& what_for);
// Returns the thread limits that are set for this process, and what raises them. `root` is the root of the
// file system, which tests replace.
std::string ThreadLimitText(const std::filesystem::path& root = "/");

// --- Memory ---

// Throws Error(kResourceExhausted), with `what_for` and the limit, unless `bytes` more can be mapped now:
// maps as many and unmaps them. For callers that would crash without the memory.
void ReserveMemory(uint64_t bytes, const std::string& what_for);
// Returns the memory limits that are set for this process, and how much is used.
std::string MemoryLimitText(const std::filesystem::path& root = "/");
// Returns error.what(); for std::bad_alloc the memory limits, and for a thread that could not
// start (EAGAIN) the thread limits.
std::string WithLimits(const std::exception& error);

}  // namespace sluice
