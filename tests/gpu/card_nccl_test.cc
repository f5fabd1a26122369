// NCCL on a real card, for machines that have one; elsewhere this is skipped.
#include "gpu/nccl_one_rank.h"
#include "tensor/gpus.h"

namespace sluice::testing {
namespace {

TEST(NcclOnACard, OneRankReducesAndBroadcasts) {
  if (const Gpus found = FindGpus(); !found.ok()) GTEST_SKIP() << found.failure().message;
  ExpectOneRankWorks();
}

}  // namespace
}  // namespace sluice::testing
