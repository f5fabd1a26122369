// Tests the DataLoader: batches depend on seed, epoch and workers alone, never on threads, prefetch or a
// restart. Datasets are made of numbers that name sample and epoch.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <set>
#include <thread>

#include "base/rng.h"
#include "base/strings.h"
#include "sluice/data.h"
#include "sluice/error.h"
#include "unit/data/meeting.h"

namespace sluice {
namespace {

// Sample i is {i, -i}, of class i % 7; `fail_at` throws. Counts how often it is asked.
class Numbers : public Dataset {
 public:
  explicit Numbers(int64_t size, int64_t fail_at = -1) : size_(size), fail_at_(fail_at) {}
  int64_t size() const override { return size_; }
  const Shape& sample_shape() const override { return shape_; }
  int64_t num_classes() const override { return 7; }
  int32_t Get(int64_t index, std::span<float> sample) const override {
    ++asked;
    if (index == fail_at_) throw Error(ErrorCode::kDataLoss, StrCat("sample ", index, " is unreadable"));
    sample[0] = static_cast<float>(index);
    sample[1] = static_cast<float>(-index);
    return static_cast<int32_t>(index % 7);
  }
  mutable std::atomic<int> asked{0};

 private:
  int64_t size_;
  int64_t fail_at_;
  Shape shape_{2};
};

std::vector<Batch> TakeBatches(DataLoader* loader, int count) {
  std::vector<Batch> batches;
  for (int i = 0; i < count; ++i) batches.push_back(loader->Next().value());
  return batches;
}

TEST(DataLoaderTest, SamplesLabelsAndIndicesBelongTogether) {
  DataLoader loader(std::make_shared<Numbers>(50), {.batch_size = 8, .seed = 3, .num_epochs = 2});
  std::vector<std::multiset<uint64_t>> seen(2);
  int batches = 0;
  while (const auto batch = loader.Next()) {
    EXPECT_EQ(batch->position, (Position{batches / 7, batches % 7}));
    ++batches;
    EXPECT_EQ(batch->size(), batch->position.step == 6 ? 2 : 8);
    EXPECT_EQ(batch->global_size, batch->size());
    EXPECT_EQ(batch->shape, (Shape{batch->size(), 2}));
    for (size_t i = 0; i < batch->indices.size(); ++i) {
      const auto index = static_cast<float>(batch->indices[i]);
      EXPECT_EQ(batch->samples[2 * i], index);
      EXPECT_EQ(batch->samples[2 * i + 1], -index);
      EXPECT_EQ(batch->labels[i], static_cast<int32_t>(batch->indices[i] % 7));
      seen[static_cast<size_t>(batch->position.epoch)].insert(batch->indices[i]);
    }
  }
  EXPECT_EQ(batches, 14);
  for (const auto& epoch : seen) {
    EXPECT_EQ(epoch.size(), 50u);
    EXPECT_EQ(std::set(epoch.begin(), epoch.end()).size(), 50u);
  }
  EXPECT_FALSE(loader.Next().has_value());
}

TEST(DataLoaderTest, TheUnionOfTheWorkersBatchesIsTheBatchOfOneProcess) {
  Rng rng(5);
  for (int round = 0; round < 60; ++round) {
    const auto workers = static_cast<int64_t>(1 + rng.Below(5));
    const auto per_worker = static_cast<int64_t>(1 + rng.Below(6));
    const auto data = std::make_shared<Numbers>(static_cast<int64_t>(1 + rng.Below(60)));
    DataLoaderOptions options{
        .batch_size = per_worker * workers, .shuffle = rng.Chance(.8), .seed = rng.Next(), .num_epochs = 3};
    options.last_batch = static_cast<LastBatch>(rng.Below(3));
    if (options.shuffle && rng.Chance(.3)) options.class_weights = {1, 0.5, 0, 2, 1, 1, 1};
    DataLoader one(data, options);
    std::vector<std::unique_ptr<DataLoader>> several;
    for (int64_t rank = 0; rank < workers; ++rank) {
      options.batch_size = per_worker;
      options.share = {rank, workers};
      options.num_threads = static_cast<int>(1 + rng.Below(3));
      several.push_back(std::make_unique<DataLoader>(data, options));
    }
    while (const auto whole = one.Next()) {
      Batch joined{.shape = {0}};
      for (auto& loader : several) {
        const Batch part = loader->Next().value();
        EXPECT_EQ(part.position, whole->position);
        EXPECT_EQ(part.global_size, whole->size());
        EXPECT_EQ(part.first, joined.shape[0]);
        joined.shape = {joined.shape[0] + part.size()};
        joined.samples.insert(joined.samples.end(), part.samples.begin(), part.samples.end());
        joined.labels.insert(joined.labels.end(), part.labels.begin(), part.labels.end());
      }
      EXPECT_EQ(joined.samples, whole->samples);
      EXPECT_EQ(joined.labels, whole->labels);
    }
    for (auto& loader : several) EXPECT_FALSE(loader->Next().has_value());
  }
}

TEST(DataLoaderTest, ThreadsAndPrefetchChangeNothing) {
  const auto data = std::make_shared<Numbers>(300);
  DataLoader plain(data, {.batch_size = 7, .seed = 9, .num_threads = 1, .prefetch = 1});
  DataLoader eager(data, {.batch_size = 7, .seed = 9, .num_threads = 4, .prefetch = 16});
  const auto expected = TakeBatches(&plain, 200);
  const auto found = TakeBatches(&eager, 200);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(found[i].position, expected[i].position);
    EXPECT_EQ(found[i].indices, expected[i].indices);
  }
}

TEST(DataLoaderTest, AResumedLoaderGoesOnWhereTheOtherStood) {
  const auto data = std::make_shared<Numbers>(45);
  const DataLoaderOptions options{.batch_size = 10, .seed = 2, .num_threads = 2};
  DataLoader first(data, options);
  const auto all = TakeBatches(&first, 12);
  for (int at = 0; at < 12; ++at) {
    DataLoader resumed(data, options);
    TakeBatches(&resumed, at % 4);
    resumed.Seek(all[static_cast<size_t>(at)].position);
    EXPECT_EQ(resumed.position(), all[static_cast<size_t>(at)].position);
    for (size_t i = static_cast<size_t>(at); i < all.size(); ++i) {
      EXPECT_EQ(resumed.Next()->indices, all[i].indices);
    }
  }
  EXPECT_THROW(first.Seek({0, 5}), Error);
  EXPECT_THROW(first.Seek({-1, 0}), Error);
  EXPECT_THROW(first.Seek({0, 0}, Share{2, 2}), Error);
}

TEST(DataLoaderTest, APositionMeansTheSameAfterAnySeek) {
  Rng rng(31);
  const auto data = std::make_shared<Numbers>(29);
  for (int round = 0; round < 30; ++round) {
    const DataLoaderOptions options{
        .batch_size = static_cast<int64_t>(1 + rng.Below(4)),
        .seed = 6,
        .last_batch = static_cast<LastBatch>(rng.Below(3)),
        .class_weights = rng.Chance(.5) ? std::vector<double>(7, 1.0) : std::vector<double>()};
    // What two workers take, from the first batch on ...
    DataLoaderOptions of_two = options;
    of_two.share = {1, 2};
    DataLoader second(data, of_two);
    const auto expected = TakeBatches(&second, 25);
    // ... is what one of three takes that becomes one of two, wherever it stood.
    DataLoaderOptions of_three = options;
    of_three.share = {0, 3};
    of_three.num_threads = 2;
    DataLoader moved(data, of_three);
    TakeBatches(&moved, static_cast<int>(rng.Below(9)));
    const size_t at = rng.Below(20);
    moved.Seek(expected[at].position, Share{1, 2});
    for (size_t i = at; i < expected.size(); ++i) {
      EXPECT_EQ(moved.position(), expected[i].position);
      EXPECT_EQ(moved.Next()->indices, expected[i].indices);
    }
  }
}

TEST(DataLoaderTest, DiscardTakesAnotherRestInEachEpoch) {
  DataLoader loader(std::make_shared<Numbers>(10),
                    {.batch_size = 4, .last_batch = LastBatch::kDiscard, .num_epochs = 20});
  std::set<uint64_t> seen;
  int batches = 0;
  for (; const auto batch = loader.Next(); ++batches) {
    EXPECT_EQ(batch->size(), 4);
    seen.insert(batch->indices.begin(), batch->indices.end());
  }
  EXPECT_EQ(batches, 40);
  EXPECT_EQ(seen.size(), 10u);
}

TEST(DataLoaderTest, RolloverTakesEverySampleOfEveryEpochInFullBatches) {
  DataLoader loader(std::make_shared<Numbers>(10),
                    {.batch_size = 4, .seed = 1, .last_batch = LastBatch::kRollover, .num_epochs = 4});
  std::vector<uint64_t> taken;
  std::vector<int64_t> steps(4);
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    steps[static_cast<size_t>(epoch)] = loader.steps_per_epoch();
    for (int64_t step = 0; step < steps[static_cast<size_t>(epoch)]; ++step) {
      const Batch batch = loader.Next().value();
      EXPECT_EQ(batch.position, (Position{epoch, step}));
      EXPECT_EQ(batch.size(), 4);
      taken.insert(taken.end(), batch.indices.begin(), batch.indices.end());
    }
  }
  EXPECT_FALSE(loader.Next().has_value());
  EXPECT_EQ(steps, (std::vector<int64_t>{2, 3, 2, 3}));
  ASSERT_EQ(taken.size(), 40u);
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    const auto order = EpochOrder({.num_samples = 10, .batch_size = 4, .seed = 1}, epoch);
    EXPECT_TRUE(std::equal(order.begin(), order.end(), taken.begin() + epoch * 10)) << "epoch " << epoch;
  }
}

// The epoch in which it is asked for a sample is the sample.
class Epochs final : public Numbers {
 public:
  using Numbers::Numbers;
  int32_t GetInEpoch(int64_t epoch, int64_t index, std::span<float> sample) const override {
    const int32_t label = Numbers::Get(index, sample);
    sample[1] = static_cast<float>(epoch);
    return label;
  }
};

TEST(DataLoaderTest, ASampleIsOfTheEpochWhoseOrderItComesFrom) {
  DataLoader loader(std::make_shared<Epochs>(10), {.batch_size = 4, .last_batch = LastBatch::kRollover});
  std::vector<float> epochs;
  for (const Batch& batch : TakeBatches(&loader, 10)) {
    for (size_t i = 1; i < batch.samples.size(); i += 2) epochs.push_back(batch.samples[i]);
  }
  for (size_t i = 0; i < epochs.size(); ++i) EXPECT_EQ(epochs[i], static_cast<float>(i / 10));
}

TEST(DataLoaderTest, ClassWeightsChooseTheClasses) {
  const auto data = std::make_shared<Numbers>(70);
  DataLoader loader(data, {.batch_size = 35, .class_weights = {0, 1, 0, 1, 0, 0, 0}});
  std::vector<int> counts(7);
  for (const Batch& batch : TakeBatches(&loader, 40)) {
    for (const int32_t label : batch.labels) ++counts[static_cast<size_t>(label)];
  }
  EXPECT_EQ(counts[1] + counts[3], 1400);
  EXPECT_NEAR(counts[1], 700, 94);  // five standard deviations
  EXPECT_EQ(BalancedClassWeights(Numbers(8)), (std::vector<double>{0.5, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(BalancedClassWeights(Numbers(2)), (std::vector<double>{1, 1, 0, 0, 0, 0, 0}));
  class Mislabelled final : public Numbers {
   public:
    Mislabelled() : Numbers(3) {}
    int32_t Label(int64_t index) const override { return index == 2 ? 7 : 0; }
  };
  try {
    BalancedClassWeights(Mislabelled());
    ADD_FAILURE() << "a label that is no class was taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "BalancedClassWeights: sample 2 is of class 7, but the dataset has 7 classes (num_classes)");
  }
}

TEST(DataLoaderTest, SeekTakesUpANewMembership) {
  const auto data = std::make_shared<Numbers>(40);
  DataLoader loader(data, {.batch_size = 4, .seed = 1, .share = {1, 2}});
  TakeBatches(&loader, 2);
  loader.Seek({1, 1}, Share{2, 3});
  DataLoader expected(data, {.batch_size = 4, .seed = 1, .share = {2, 3}});
  expected.Seek({1, 1});
  EXPECT_EQ(loader.steps_per_epoch(), 4);
  EXPECT_EQ(loader.Next()->indices, expected.Next()->indices);
}

TEST(DataLoaderTest, AnEmptyShareIsABatch) {
  DataLoader loader(std::make_shared<Numbers>(5),
                    {.batch_size = 2, .shuffle = false, .share = {0, 4}, .num_epochs = 1});
  EXPECT_EQ(loader.Next()->indices, (std::vector<uint64_t>{0}));  // 5 over 4 ranks: 1, 1, 1, 2
  DataLoader single(std::make_shared<Numbers>(1), {.batch_size = 2, .share = {0, 4}, .num_epochs = 1});
  const auto batch = single.Next();
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->size(), 0);
  EXPECT_EQ(batch->global_size, 1);
  EXPECT_EQ(batch->shape, (Shape{0, 2}));
  EXPECT_FALSE(single.Next().has_value());
}

TEST(DataLoaderTest, AnErrorComesInItsTurnAndStays) {
  DataLoader loader(std::make_shared<Numbers>(40, 25),
                    {.batch_size = 10, .shuffle = false, .num_threads = 3});
  TakeBatches(&loader, 2);
  for (int i = 0; i < 2; ++i) {
    try {
      loader.Next();
      FAIL() << "gave a batch with an unreadable sample";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kDataLoss);
      EXPECT_STREQ(e.what(), "sample 25 is unreadable");
    }
  }
  loader.Seek({0, 3});
  EXPECT_EQ(loader.Next()->indices.front(), 30u);
}

TEST(DataLoaderTest, NoMoreThanThePrefetchIsMadeAhead) {
  const auto data = std::make_shared<Numbers>(1000);
  {
    DataLoader loader(data, {.batch_size = 10, .num_threads = 4, .prefetch = 3});
    TakeBatches(&loader, 5);
  }
  EXPECT_GE(data->asked, 50);
  EXPECT_LE(data->asked, 80);
}

// Holds every Get until told to go on.
class Gated final : public Numbers {
 public:
  Gated() : Numbers(1'000'000) {}
  int32_t Get(int64_t index, std::span<float> sample) const override {
    gate.wait();
    return Numbers::Get(index, sample);
  }
  std::promise<void> open;
  std::shared_future<void> gate{open.get_future()};
};

// Batches have 7 samples; the last one of an epoch has 5.
TEST(DataLoaderTest, BatchesHandedBackAreMadeAnewInTheirMemory) {
  const auto data = std::make_shared<Numbers>(40);
  const DataLoaderOptions options{.batch_size = 7, .seed = 9, .num_epochs = 20, .num_threads = 2};
  DataLoader plain(data, options), reusing(data, options);
  std::set<const float*> memory;
  int64_t batches = 0;
  while (auto expected = plain.Next()) {
    std::optional<Batch> batch = reusing.Next();
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->samples, expected->samples);
    EXPECT_EQ(batch->labels, expected->labels);
    EXPECT_EQ(batch->indices, expected->indices);
    EXPECT_EQ(batch->shape, expected->shape);
    EXPECT_EQ(batch->global_size, expected->global_size);
    EXPECT_EQ(batch->position, expected->position);
    memory.insert(batch->samples.data());
    reusing.Reuse(std::move(*batch));
    if (++batches == 60) {  // what lies ready is dropped
      plain.Seek({3, 2});
      reusing.Seek({3, 2});
    }
  }
  EXPECT_FALSE(reusing.Next());
  EXPECT_GT(batches, 120);
  EXPECT_LT(memory.size(), 30u);
}

TEST(DataLoaderTest, EveryThreadHasABatchToMake) {
  DataLoader loader(std::make_shared<testing::Meeting>(std::make_shared<Numbers>(1000), 12),
                    {.batch_size = 10, .num_threads = 12});
  EXPECT_EQ(loader.Next()->indices.size(), 10u);
}

TEST(DataLoaderTest, ASlowDatasetEndsInADeadlineThatNamesTheBatch) {
  const auto data = std::make_shared<Gated>();
  DataLoader loader(data, {.batch_size = 4, .timeout = std::chrono::milliseconds(20)});
  try {
    loader.Next();
    ADD_FAILURE() << "gave a batch that could not be made";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kDeadlineExceeded);
    EXPECT_NE(std::string(e.what()).find("epoch 0, step 0"), std::string::npos) << e.what();
  }
  data->open.set_value();
}

TEST(DataLoaderTest, TheDestructorLeavesTheBatchUnfinished) {
  const auto data = std::make_shared<Gated>();
  auto loader =
      std::make_unique<DataLoader>(data, DataLoaderOptions{.batch_size = 1'000'000, .shuffle = false});
  std::thread destroyer([&] { loader.reset(); });
  data->open.set_value();
  destroyer.join();
  EXPECT_LT(data->asked, 1'000'000);
}

TEST(DataLoaderTest, OptionsOutOfRangeAreRefused) {
  const auto data = std::make_shared<Numbers>(10);
  EXPECT_THROW(DataLoader(nullptr, {}), Error);
  EXPECT_THROW(DataLoader(std::make_shared<Numbers>(0), {}), Error);
  EXPECT_THROW(DataLoader(data, {.batch_size = 0}), Error);
  EXPECT_THROW(DataLoader(data, {.share = {3, 3}}), Error);
  EXPECT_THROW(DataLoader(data, {.num_threads = 0}), Error);
  EXPECT_THROW(DataLoader(data, {.prefetch = -1}), Error);
  EXPECT_THROW(DataLoader(data, {.class_weights = {1, 1}}), Error);
  EXPECT_THROW(DataLoader(data, {.class_weights = std::vector<double>(7, 0.0)}), Error);
  EXPECT_THROW(DataLoader(data, {.shuffle = false, .class_weights = std::vector<double>(7, 1.0)}), Error);
}

}  // namespace
}  // namespace sluice
