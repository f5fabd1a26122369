// Beside a sanitizer, whose malloc it must be.
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
