// cuDNN's description of the card of this machine, for machines that have one; elsewhere this is skipped. The
// file that SLUICE_CARD_DESCRIPTION names gets it: tests/gpu/devices/ has such files, from which plans are
// built where there is no card.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tensor/cuda/cudnn_graph.h"
#include "tensor/gpus.h"

namespace sluice::cuda {
namespace {

TEST(CardDescription, GivesThePlansOfTheCard) {
  if (const Gpus found = FindGpus(); !found.ok()) GTEST_SKIP() << found.failure().message;
  const std::shared_ptr<const Cudnn> library = LoadCudnn();
  cudnnHandle_t handle = nullptr;
  ASSERT_EQ(library->Create(&handle), CUDNN_STATUS_SUCCESS);
  const std::string json = JsonOf(CardOf(*library, handle));
  EXPECT_EQ(library->Destroy(handle), CUDNN_STATUS_SUCCESS);
  if (const char* path = std::getenv("SLUICE_CARD_DESCRIPTION"); path != nullptr) {
    std::ofstream file(path);
    file << json << "\n";
    EXPECT_TRUE(file.flush()) << path;
  }
  const CudnnDescriptor card = CardFromJson(*library, json);
  const ConvolutionProblem first_of_lenet = {.shape = {64, 1, 28, 28, 20, {5, 5}}};
  EXPECT_EQ(FindPlans(card, first_of_lenet, int64_t{256} << 20, 1).size(), 1u);
}

}  // namespace
}  // namespace sluice::cuda
