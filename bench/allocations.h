// Counts the heap allocations of this program, by the module that makes them. The program defines malloc,
// calloc and their like itself, so that the calls of all libraries pass through them; while counting is on,
// each call walks the stack to find its caller.
//
// All functions are thread-safe. Nothing is counted in builds with sanitizers, which have their own malloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::bench {

enum class AllocatedBy : uint8_t {
  kArrays,  // HeapAllocator (base/buffer.h): arrays, and pools of records that grow
  kSluice,  // all other code of Sluice and of this program
  kOneDnn,  // libdnnl's own bookkeeping
  kOthers,  // other libraries
};
inline constexpr AllocatedBy kAllocators[] = {AllocatedBy::kArrays, AllocatedBy::kSluice,
                                              AllocatedBy::kOneDnn, AllocatedBy::kOthers};
inline const char* Name(AllocatedBy who) {
  constexpr const char* kNames[] = {"arrays", "sluice", "onednn", "others"};
  return kNames[static_cast<size_t>(who)];
}

struct AllocationCount {
  uint64_t calls = 0, bytes = 0;
};

// A place in the code that allocates: its stack frames, innermost first, from the first one that is not in
// the C or C++ library.
struct AllocationSite {
  AllocatedBy who = AllocatedBy::kSluice;
  AllocationCount count;
  std::vector<std::string> frames;  // "train_bench+0x1234"; `addr2line -Cfie` takes file and offset
};

bool CanCountAllocations();
// Resets all counts and starts counting. Each counted call then costs some microseconds.
void StartCountingAllocations();
void StopCountingAllocations();
AllocationCount CountOf(AllocatedBy who);
// Returns the places that allocated, the most frequent first. Call it once counting has stopped.
std::vector<AllocationSite> AllocationSites();

}  // namespace sluice::bench
