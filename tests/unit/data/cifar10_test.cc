#include "data/cifar10.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/data_files.h"
#include "sluice/error.h"
#include "unit/data/temporary_folder.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// Its pixels are `label` and then numbers that count up.
std::string RecordOf(int label, int first = 0) {
  std::string record(1, static_cast<char>(label));
  for (int i = 0; i < 3072; ++i) record += static_cast<char>(first + i);
  return record;
}

std::string CifarFile(int64_t records, int label) {
  std::string file;
  const std::string record = RecordOf(label);
  for (int64_t i = 0; i < records; ++i) file += record;
  return file;
}

std::string WhyCifarRefused(const std::string& bytes, int64_t images) {
  Cifar10Batch batch;
  const Status status = AppendCifar10(AsBytes(bytes), "batch", &batch, images);
  return status ? "accepted" : status.failure().message;
}

TEST(Cifar10, ReadsLabelsAndPlanes) {
  Cifar10Batch batch;
  AppendCifar10(AsBytes(RecordOf(9) + RecordOf(0, 7)), "batch", &batch, 2).OrThrow();
  EXPECT_EQ(batch.labels, (std::vector<uint8_t>{9, 0}));
  ASSERT_EQ(batch.pixels.size(), 2u * 3072);
  EXPECT_EQ(batch.pixels[1024], 1024 % 256);           // green, of the first row's first pixel
  EXPECT_EQ(batch.pixels[3072 + 33], (7 + 33) % 256);  // red, second row, second pixel
}

TEST(Cifar10, LengthsAndLabelsAreChecked) {
  const std::string two = RecordOf(1) + RecordOf(2);
  EXPECT_EQ(WhyCifarRefused(two, 2), "accepted");
  EXPECT_THAT(WhyCifarRefused("", 2), HasSubstr("has 0 bytes; 2 records of 3073 bytes are 6146"));
  EXPECT_THAT(WhyCifarRefused(two.substr(0, 6145), 2), HasSubstr("has 6145 bytes"));
  EXPECT_THAT(WhyCifarRefused(two + "x", 2), HasSubstr("has 6147 bytes"));
  EXPECT_THAT(WhyCifarRefused(two, 1), HasSubstr("tools/get_cifar10.py"));
  EXPECT_THAT(WhyCifarRefused(RecordOf(1) + RecordOf(10), 2),
              HasSubstr("'batch': the label of record 1, byte 3073, is 10; expected 0 to 9"));
}

TEST(Cifar10, FilesAreFoundAndJoinedInOrder) {
  const TemporaryFolder folder;
  const auto load = [&](Subset subset) { return LoadCifar10(folder.path(), subset); };
  EXPECT_THAT(ErrorOf(ErrorCode::kNotFound, [&] { load(Subset::kTest); }), HasSubstr("test_batch.bin"));
  folder.Put("cifar-10-batches-bin/test_batch.bin", CifarFile(10'000, 4));  // as the archive unpacks
  const auto test = load(Subset::kTest);
  EXPECT_EQ(test->size(), 10'000);
  EXPECT_EQ(test->sample_shape(), (Shape{3, 32, 32}));
  EXPECT_EQ(test->Label(9'999), 4);
  EXPECT_EQ(test->pixels(9'999)[3071], 3071 % 256);
  folder.Put("data_batch_1.bin", CifarFile(10'000, 6));
  EXPECT_THAT(ErrorOf(ErrorCode::kNotFound, [&] { load(Subset::kTrain); }), HasSubstr("data_batch_2.bin"));
  folder.Put("data_batch_2.bin", CifarFile(9'999, 6));
  EXPECT_THAT(ErrorOf(ErrorCode::kDataLoss, [&] { load(Subset::kTrain); }),
              HasSubstr("data_batch_2.bin' has"));
  for (int i = 2; i <= 5; ++i) folder.Put("data_batch_" + std::to_string(i) + ".bin", CifarFile(10'000, i));
  const auto train = load(Subset::kTrain);
  EXPECT_EQ(train->size(), 50'000);
  EXPECT_EQ(train->Label(9'999), 6);
  EXPECT_EQ(train->Label(10'000), 2);
  EXPECT_EQ(train->Label(49'999), 5);
}

}  // namespace
}  // namespace sluice
