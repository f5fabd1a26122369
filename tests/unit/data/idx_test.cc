// Tests data/idx.h: MNIST's files, plain and gzipped, under each of their usual names. Damaged files and
// those that would fill memory are refused.
#include "data/idx.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/rng.h"
#include "data/mnist.h"
#include "sluice/data_files.h"
#include "sluice/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::string IdxFile(const std::vector<uint32_t>& dims, const std::string& values, char type = 8) {
  std::string bytes{0, 0, type, static_cast<char>(dims.size())};
  for (const uint32_t dim : dims) {
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>((dim >> shift) & 0xff);
  }
  return bytes + values;
}

std::string Gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

Result<IdxArray> Parse(const std::string& file, uint64_t max_bytes = 1 << 24) {
  return ParseIdx(AsBytes(file), "images", max_bytes);
}

std::string WhyIdxRefused(const std::string& file, uint64_t max_bytes = 1 << 24) {
  const auto array = Parse(file, max_bytes);
  return array ? "accepted" : array.failure().message;
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Idx, ReadsExtentsAndValues) {
  const auto array = Parse(IdxFile({2, 3}, "abcdef"));
  ASSERT_TRUE(array.ok()) << array.failure().message;
  EXPECT_EQ(array.value().dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(array.value().values, (std::vector<uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
}

TEST(Idx, EveryFieldIsChecked) {
  std::string file = IdxFile({2, 3}, "abcdef");
  EXPECT_CONTAINS(WhyIdxRefused(""), "has 0 bytes");
  EXPECT_CONTAINS(WhyIdxRefused(file.substr(0, 3)), "has 3 bytes");
  EXPECT_CONTAINS(WhyIdxRefused('\1' + file.substr(1)), "begins with the bytes 1 0");
  EXPECT_CONTAINS(WhyIdxRefused(IdxFile({2}, "ab", 0x0d)), "type code is 13");
  EXPECT_CONTAINS(WhyIdxRefused(IdxFile({}, "")), "number of axes is 0");
  EXPECT_CONTAINS(WhyIdxRefused(IdxFile({1, 1, 1, 1, 1}, "a")), "number of axes is 5");
  EXPECT_CONTAINS(WhyIdxRefused(file.substr(0, 11)), "ends inside the extents");
  EXPECT_CONTAINS(WhyIdxRefused(file.substr(0, file.size() - 1)),
                  "promise 6 values, but 5 follow; the file is truncated");
  EXPECT_CONTAINS(WhyIdxRefused(file + "g"), "but 7 follow; the file is longer than it says");
  EXPECT_CONTAINS(WhyIdxRefused(IdxFile({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, "")),
                  "larger than");
  EXPECT_CONTAINS(WhyIdxRefused(IdxFile({65536, 65536, 65536, 65536}, "")), "larger than");
  EXPECT_EQ(WhyIdxRefused(IdxFile({10}, "0123456789"), 10), "accepted");
  EXPECT_CONTAINS(WhyIdxRefused(IdxFile({10}, "0123456789"), 9), "extent 0 is 10");
  EXPECT_CONTAINS(WhyIdxRefused(file + "g"), "'images'");
}

TEST(Idx, GzippedFilesAreTheSameArray) {
  Rng rng(3);
  for (const size_t size : {0u, 1u, 1000u, 3'000'000u}) {  // the last needs several steps of unpacking
    std::string values(size, '\0');
    for (char& c : values) c = static_cast<char>(rng.Next());
    const auto array = Parse(Gzip(IdxFile({static_cast<uint32_t>(size)}, values)));
    ASSERT_TRUE(array.ok()) << array.failure().message;
    EXPECT_TRUE(std::equal(values.begin(), values.end(), array.value().values.begin(),
                           array.value().values.end(),
                           [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; }));
  }
}

TEST(Idx, GzipMembersAreJoined) {
  const std::string file = IdxFile({4}, "abcd");
  EXPECT_EQ(WhyIdxRefused(Gzip(file.substr(0, 5)) + Gzip(file.substr(5))), "accepted");
}

TEST(Idx, DamagedGzipIsRefused) {
  const std::string packed = Gzip(IdxFile({1000}, std::string(1000, 'x')));
  for (size_t size = 2; size < packed.size(); ++size) {
    EXPECT_CONTAINS(WhyIdxRefused(packed.substr(0, size)), "truncated");
  }
  EXPECT_CONTAINS(WhyIdxRefused(packed + "tail"), "4 bytes follow");
  std::string flipped = packed;
  flipped[packed.size() - 6] ^= 1;  // in the checksum
  EXPECT_CONTAINS(WhyIdxRefused(flipped), "corrupt");
}

TEST(Idx, AGzipBombStopsAtTheLimit) {
  EXPECT_CONTAINS(WhyIdxRefused(Gzip(std::string(1 << 24, '\0')), 1 << 16), "unpacks to more than");
}

IdxArray IdxOf(std::vector<int64_t> dims, std::vector<uint8_t> values) {
  return {std::move(dims), std::move(values)};
}

std::string MessageOfJoin(IdxArray images, IdxArray labels) {
  const auto joined = JoinMnist(std::move(images), "images", std::move(labels), "labels");
  return joined ? "joined" : joined.failure().message;
}

TEST(Mnist, JoinsImagesAndLabels) {
  const auto joined = JoinMnist(IdxOf({2, 1, 2}, {0, 255, 51, 102}), "images", IdxOf({2}, {9, 3}), "labels");
  ASSERT_TRUE(joined.ok()) << joined.failure().message;
  EXPECT_EQ(joined.value()->sample_shape(), (Shape{1, 1, 2}));
  std::vector<float> sample(2);
  EXPECT_EQ(joined.value()->Get(0, sample), 9);
  EXPECT_EQ(sample, (std::vector<float>{0.0f, 1.0f}));
  EXPECT_EQ(joined.value()->Get(1, sample), 3);
  EXPECT_EQ(sample, (std::vector<float>{0.2f, 0.4f}));
}

TEST(Mnist, ArraysThatDoNotFitAreRefused) {
  const IdxArray images = IdxOf({2, 1, 1}, {0, 0});
  EXPECT_EQ(MessageOfJoin(images, IdxOf({2}, {0, 9})), "joined");
  EXPECT_CONTAINS(MessageOfJoin(images, IdxOf({3}, {0, 1, 2})), "has 2 images, but 'labels' has 3 labels");
  EXPECT_CONTAINS(MessageOfJoin(images, IdxOf({2}, {0, 10})), "label 1 is 10; expected 0 to 9");
  EXPECT_CONTAINS(MessageOfJoin(IdxOf({2}, {0, 0}), IdxOf({2}, {0, 0})), "images have 3");
  EXPECT_CONTAINS(MessageOfJoin(images, images), "labels have 1");
  EXPECT_CONTAINS(MessageOfJoin(IdxOf({0, 28, 28}, {}), IdxOf({0}, {})), "no pixels");
  EXPECT_CONTAINS(MessageOfJoin(IdxOf({2, 0, 28}, {}), IdxOf({2}, {1, 1})), "no pixels");
}

class MnistFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "sluice-mnist-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  void Put(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  std::string WhyIdxRefused() const {
    try {
      LoadMnist(folder_, Subset::kTest);
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  }
  fs::path folder_;
};

TEST_F(MnistFolder, TakesPlainOrGzippedFilesAndSaysWhatIsMissing) {
  EXPECT_CONTAINS(WhyIdxRefused(), "t10k-images-idx3-ubyte");
  EXPECT_CONTAINS(WhyIdxRefused(), "get_mnist.py");
  Put("t10k-images-idx3-ubyte.gz", Gzip(IdxFile({1, 2, 2}, "abcd")));
  EXPECT_CONTAINS(WhyIdxRefused(), "t10k-labels-idx1-ubyte");
  Put("t10k-labels-idx1-ubyte", IdxFile({1}, std::string(1, '\7')));
  EXPECT_EQ(WhyIdxRefused(), "accepted");
  Put("t10k-images-idx3-ubyte", "nonsense");
  EXPECT_CONTAINS(WhyIdxRefused(), "t10k-images-idx3-ubyte'");
}

// As browsers, Kaggle and torchvision leave them.
TEST_F(MnistFolder, FindsTheOtherNamesOfTheFiles) {
  const std::string images = IdxFile({1, 2, 2}, "abcd"), labels = IdxFile({1}, std::string(1, '\7'));
  const auto put = [&](const std::string& name, const std::string& bytes) {
    fs::create_directories((folder_ / name).parent_path());
    Put(name, bytes);
  };
  for (const auto& [images_name, labels_name] :
       {std::pair("t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte"),
        std::pair("t10k-images.idx3-ubyte.gz", "t10k-labels-idx1-ubyte"),
        std::pair("test-images-idx3-ubyte", "test-labels-idx1-ubyte"),
        std::pair("t10k-images-idx3-ubyte/t10k-images-idx3-ubyte",
                  "t10k-labels-idx1-ubyte/t10k-labels-idx1-ubyte"),
        std::pair("raw/t10k-images-idx3-ubyte", "raw/t10k-labels-idx1-ubyte.gz"),
        std::pair("MNIST/raw/t10k-images-idx3-ubyte", "MNIST/raw/t10k-labels-idx1-ubyte"),
        std::pair("FashionMNIST/raw/t10k-images-idx3-ubyte.gz",
                  "FashionMNIST/raw/t10k-labels-idx1-ubyte.gz")}) {
    SCOPED_TRACE(images_name);
    const auto packed = [](std::string_view name, const std::string& bytes) {
      return name.ends_with(".gz") ? Gzip(bytes) : bytes;
    };
    put(images_name, packed(images_name, images));
    put(labels_name, packed(labels_name, labels));
    EXPECT_EQ(WhyIdxRefused(), "accepted");
    for (const auto& entry : fs::directory_iterator(folder_)) fs::remove_all(entry);
  }
  put("t10k-images.idx3-ubyte", images);
  EXPECT_CONTAINS(WhyIdxRefused(), "t10k-labels-idx1-ubyte'");
  EXPECT_CONTAINS(WhyIdxRefused(), "t10k-labels.idx1-ubyte'");
}

// Another data set beside it has as many samples, so that nothing else would tell.
TEST_F(MnistFolder, TakesImagesAndLabelsOfOneFolder) {
  const std::string images = IdxFile({1, 2, 2}, "abcd"), labels = IdxFile({1}, std::string(1, '\7'));
  fs::create_directories(folder_ / "FashionMNIST/raw");
  Put("t10k-images-idx3-ubyte", images);
  Put("FashionMNIST/raw/t10k-labels-idx1-ubyte", labels);
  EXPECT_CONTAINS(WhyIdxRefused(), "t10k-labels-idx1-ubyte'");
  Put("FashionMNIST/raw/t10k-images-idx3-ubyte", IdxFile({1, 2, 2}, "wxyz"));
  EXPECT_EQ(LoadMnist(folder_, Subset::kTest)->pixels(0)[0], 'w');
}

TEST(MnistFiles, TheRealSetReadsAsPublished) {
  const char* given = std::getenv("SLUICE_MNIST");
  const fs::path folder = given != nullptr ? given : SLUICE_SOURCE_DIR "/../shared/data/mnist";
  if (!fs::exists(folder / "train-images-idx3-ubyte.gz")) GTEST_SKIP() << "no MNIST in " << folder;
  const auto train = LoadMnist(folder, Subset::kTrain);
  const auto test = LoadMnist(folder, Subset::kTest);
  EXPECT_EQ(train->size(), 60'000);
  EXPECT_EQ(test->size(), 10'000);
  EXPECT_EQ(train->sample_shape(), (Shape{1, 28, 28}));
  EXPECT_EQ(std::vector(train->labels().begin(), train->labels().begin() + 5),
            (std::vector<uint8_t>{5, 0, 4, 1, 9}));
  double sum = 0;
  for (int64_t i = 0; i < train->size(); ++i) {
    const auto pixels = train->pixels(i);
    sum += std::accumulate(pixels.begin(), pixels.end(), 0.0);
  }
  EXPECT_NEAR(sum / 255 / 784 / 60'000, 0.1307, 5e-5);  // the mean everybody normalises by
}

TEST(ImageDatasetTest, RefusesWhatDoesNotFit) {
  EXPECT_THROW(ImageDataset(Shape{1, 2}, {1, 2, 3}, {0, 1}), Error);
  EXPECT_THROW(ImageDataset(Shape{1, 2}, {1, 2}, {10}), Error);
  EXPECT_NO_THROW(ImageDataset(Shape{1, 2}, {1, 2}, {10}, 11));
}

}  // namespace
}  // namespace sluice
