// What a program says of its data goes into its files of parameters, and comes back.
#include <gmock/gmock.h>

#include "sluice/callback.h"
#include "sluice/checkpoint.h"
#include "sluice/fit.h"
#include "sluice/parameters_file.h"
#include "unit/data/temporary_folder.h"
#include "unit/expect_error.h"
#include "unit/train/points.h"
#include "unit/train/toy.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

class MetadataTest : public ::testing::Test {
 protected:
  const FileMetadata metadata_ = {{"labels", "bad\ngood"}, {"vocabulary", "<pad>\n<unk>\nfine\nö\\x"}};
  const TemporaryFolder folder_;
};

TEST_F(MetadataTest, CallbacksSaveThemAndCheckpointsBringThemBack) {
  const std::string prefix = folder_.path("run"), best = folder_.path("best.safetensors");
  nn::Dense net(int64_t{kClasses});
  net.CollectParams().Initialize({cpu(0)}, nullptr, 4);
  FitOptions options;
  options.batch_size = 8;
  options.num_epochs = 1;
  options.disp_batches = 0;
  options.callbacks = {SaveEvery(prefix, {.epochs = 1, .steps = 2, .metadata = metadata_}),
                       KeepBest(best, metadata_)};
  const auto data = std::make_shared<RandomPoints>(22, 1);
  Fit(net, data, data, {.learning_rate = 0.1}, StoreOf("local"), options);
  ASSERT_EQ(ListCheckpoints(prefix).size(), 2u);
  for (const Position& position : ListCheckpoints(prefix)) {
    const LoadedCheckpoint read = ReadCheckpoint(prefix, position);
    const LoadedCheckpoint loaded = LoadCheckpoint(prefix, position, net.CollectParams());
    EXPECT_EQ(read.metadata, metadata_);
    EXPECT_EQ(loaded.metadata, metadata_);
    EXPECT_TRUE(read.has_position && loaded.has_position);
    EXPECT_EQ(read.states, loaded.states);
    EXPECT_EQ(read.updates, position.epoch == 0 ? 2 : 3);
  }
  const FileMetadata kept = ReadFileMetadata(best);
  for (const auto& [name, text] : metadata_) EXPECT_EQ(kept.at(name), text);
  EXPECT_EQ(kept.at("epoch"), "1");
}

TEST_F(MetadataTest, AreReadOfAFileWithoutAPosition) {
  const std::string prefix = folder_.path("run");
  SaveParameters(CheckpointFile(prefix, {1, 0}), {}, metadata_);
  const LoadedCheckpoint read = ReadCheckpoint(prefix, {1, 0});
  EXPECT_FALSE(read.has_position);
  EXPECT_EQ(read.metadata, metadata_);
}

TEST_F(MetadataTest, NamesThatSluiceUsesAreRefusedBeforeTraining) {
  for (const std::string name : {"epoch", "step", "class_weights", "test_accuracy", "format", "callback x"}) {
    const FileMetadata taken = {{name, "1"}};
    for (const auto& make : std::vector<std::function<void()>>{
             [&] { SaveEvery(folder_.path("run"), {.epochs = 1, .metadata = taken}); },
             [&] { KeepBest(folder_.path("best.safetensors"), taken); }})
      EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, make), HasSubstr("'" + name + "'"));
  }
}

}  // namespace
}  // namespace sluice::testing
