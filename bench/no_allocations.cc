// The implementation of allocations.h for builds with a sanitizer, which must provide malloc itself.
#include "allocations.h"

namespace sluice::bench {

bool CanCountAllocations() {
  return false;
}
void StartCountingAllocations() {}
void StopCountingAllocations() {}
AllocationCount CountOf(AllocatedBy) {
  return {};
}
std::vector<AllocationSite> AllocationSites() {
  return {};
}

}  // namespace sluice::bench
