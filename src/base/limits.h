// What the operating system lets this process have of descriptors, threads and memory: taken care of before
// something needs it, and in words once it is refused. Thread safety: all functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice {

// --- Descriptors ---

// Sees to it that this process can open `needed` more descriptors `what_for`, and `wished` more where that
// can be: raises the soft limit (RLIMIT_NOFILE) as far as that takes, up to the hard one, for the process and
// not for children that it forks. Error(kResourceExhausted) that names numbers, limit and what to do.
void ReserveDescriptors(uint64_t needed, const std::string& what_for, uint64_t wished = 0);
// Whether `error`, an errno, says that the process, or the system, has no more of them.
bool MeansNoDescriptor(int error);
// Whether it could not open one now.
bool DescriptorsAreUsedUp();
// "256 of 256 descriptors are open (...)", and what raises the limit.
std::string DescriptorLimitText();

// --- Threads ---

// Error(kResourceExhausted), which names the variable or limit, where threads would have too small stacks for
// `what_for`. For who starts threads by a library: threads.h.
void RequireStacks(const std::string& what_for);
// The limits of threads that are set for this process, and what raises them. `root`: of the file system.
std::string ThreadLimitText(const std::filesystem::path& root = "/");

// --- Memory ---

// Error(kResourceExhausted), which names the limit, unless `bytes` more can be mapped now `what_for`: maps as
// many and gives them back. For who would crash without them.
void ReserveMemory(uint64_t bytes, const std::string& what_for);
// The limits of memory that are set for this process, and what raises them.
std::string MemoryLimitText(const std::filesystem::path& root = "/");
// What `error` says; of refused memory, or of a thread that could not start, what limits it.
std::string WithLimits(const std::exception& error);

}  // namespace sluice
