// Counts what this program takes from the heap, by who asked for it: the program's own malloc, calloc and
// their like hear every call of every library, and walk the stack while they count.
//
// Thread safety: all functions. Nothing is counted in builds with sanitizers, which have their own malloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::bench {

enum class AllocatedBy : uint8_t {
  kArrays,  // the heap behind the Allocator seam: arrays, and pools of records that grow
  kSluice,  // anything else of Sluice and of this program
  kOneDnn,  // libdnnl's own bookkeeping
  kOthers,  // other libraries, on their own account
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

// A place in the code: the frames, innermost first, without those of the C and C++ libraries.
struct AllocationSite {
  AllocatedBy who = AllocatedBy::kSluice;
  AllocationCount count;
  std::vector<std::string> frames;  // "train_bench+0x1234", what `addr2line -Cfie` takes
};

bool CanCountAllocations();
// From zero. A counted call costs some microseconds.
void StartCountingAllocations();
void StopCountingAllocations();
AllocationCount CountOf(AllocatedBy who);
// The most frequent first. When counting has stopped.
std::vector<AllocationSite> AllocationSites();

}  // namespace sluice::bench
