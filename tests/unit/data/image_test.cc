// Tests the readers of pictures: decoded JPEG and PNG pictures, and folders of them. Pillow made the expected
// pixels (tests/golden/images).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>

#include "base/rng.h"
#include "data/image_sample.h"
#include "data/images/decode.h"
#include "data/resize.h"
#include "sluice/error.h"
#include "unit/data/temporary_folder.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr char kGolden[] = SLUICE_SOURCE_DIR "/tests/golden/images/";

std::string Golden(const std::string& name) {
  std::ifstream file(kGolden + name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// By name, what Pillow makes of them: tests/golden/images/make_images.py.
std::map<std::string, Image> Expected() {
  std::map<std::string, Image> images;
  std::ifstream file(std::string(kGolden) + "expected.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    Image image;
    words >> name >> image.height >> image.width >> image.channels;
    for (int value = 0; words >> value;) image.pixels.push_back(static_cast<uint8_t>(value));
    images[name] = image;
  }
  return images;
}

std::string WhyPictureRefused(std::string_view bytes, ErrorCode code = ErrorCode::kDataLoss,
                              uint64_t max_bytes = kMaxImageBytes) {
  const auto image = DecodeImage(AsBytes(bytes), "picture", max_bytes);
  if (image) return "accepted";
  EXPECT_EQ(image.failure().code, code) << image.failure().message;
  EXPECT_THAT(image.failure().message, HasSubstr("'picture'"));
  return image.failure().message;
}

TEST(Images, PixelsArePillows) {
  const auto expected = Expected();
  EXPECT_EQ(expected.size(), 9u);
  for (const auto& [name, image] : expected) {
    const Result<Image> found = DecodeImage(AsBytes(Golden(name)), name);
    ASSERT_TRUE(found.ok()) << found.failure().message;
    EXPECT_EQ(found.value().height, image.height) << name;
    EXPECT_EQ(found.value().width, image.width) << name;
    ASSERT_EQ(found.value().channels, image.channels) << name;
    ASSERT_EQ(found.value().pixels.size(), image.pixels.size()) << name;
    int farthest = 0;
    for (size_t i = 0; i < image.pixels.size(); ++i)
      farthest = std::max(farthest, std::abs(int{found.value().pixels[i]} - int{image.pixels[i]}));
    EXPECT_LE(farthest, name.ends_with(".jpg") ? 1 : 0) << name;  // JPEG leaves the last bit to the decoder
  }
}

TEST(Images, WhatIsNoImageIsRefused) {
  EXPECT_THAT(WhyPictureRefused(""), HasSubstr("it has 0 bytes, which begin with nothing"));
  EXPECT_THAT(WhyPictureRefused("GIF89a"),
              HasSubstr("neither PNG nor JPEG: it has 6 bytes, which begin with 47 49 46 38"));
  EXPECT_THAT(WhyPictureRefused("\xff\xd8\xff"), HasSubstr("damaged JPEG of 3 bytes"));
  EXPECT_THAT(WhyPictureRefused(Golden("cmyk.jpg"), ErrorCode::kUnimplemented), HasSubstr("CMYK"));
}

TEST(Images, EveryTruncationIsAnError) {
  for (const auto& [name, image] : Expected()) {
    const std::string whole = Golden(name);
    // A JPEG without its last two bytes, the end marker, has every pixel all the same.
    for (size_t size = 0; size + 2 < whole.size(); ++size)
      EXPECT_NE(WhyPictureRefused(whole.substr(0, size)), "accepted") << name << " cut at " << size;
  }
}

TEST(Images, DamageIsAnErrorOrAnotherPicture) {
  Rng rng(3);
  for (const auto& [name, image] : Expected()) {
    for (int round = 0; round < 200; ++round) {
      std::string bytes = Golden(name);
      bytes[rng.Below(bytes.size())] ^= static_cast<char>(1 + rng.Below(255));
      const auto decoded = DecodeImage(AsBytes(bytes), name, 1 << 20);
      if (!decoded) continue;
      const Image& found = decoded.value();
      EXPECT_EQ(static_cast<int64_t>(found.pixels.size()), found.height * found.width * found.channels);
    }
  }
}

TEST(Images, AHeaderCannotAskForMemory) {
  EXPECT_THAT(WhyPictureRefused(Golden("rgb.png"), ErrorCode::kResourceExhausted, 104),
              HasSubstr("5 x 7 pixels with 3 channels"));
  EXPECT_EQ(WhyPictureRefused(Golden("rgb.png"), ErrorCode::kResourceExhausted, 105), "accepted");
  EXPECT_THAT(WhyPictureRefused(Golden("rgb.jpg"), ErrorCode::kResourceExhausted, 100),
              HasSubstr("21 x 19 pixels"));
  std::string large = Golden("rgb.jpg");
  const size_t frame = large.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  for (size_t i = 5; i < 9; i += 2) large[frame + i] = '\xfe';  // the upper bytes of both extents
  EXPECT_THAT(WhyPictureRefused(large, ErrorCode::kResourceExhausted), HasSubstr("65045 x 65043"));
}

std::vector<float> SampleOf(const std::string& name, const ImageOptions& options) {
  std::vector<float> sample(static_cast<size_t>(options.shape.size()));
  DecodeSample(AsBytes(Golden(name)), name, options, sample).OrThrow();
  return sample;
}

TEST(ImageSample, IsInPlanesFrom0To1) {
  const Image image = Expected().at("rgb.png");
  const auto sample = SampleOf("rgb.png", {.shape = {3, 7, 5}});
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < 35; ++i)
      EXPECT_EQ(sample[c * 35 + i], static_cast<float>(image.pixels[i * 3 + c]) / 255.0f);
  }
}

TEST(ImageSample, ConvertsColoursOnlyWhenAsked) {
  const auto why = [](const std::string& name, const ImageOptions& options) {
    return ErrorOf(ErrorCode::kDataLoss, [&] { SampleOf(name, options); });
  };
  EXPECT_THAT(why("rgb.png", {.shape = {1, 7, 5}}),
              HasSubstr("'rgb.png' is in colour (3 channels); expected grey"));
  EXPECT_THAT(why("grey.png", {.shape = {3, 4, 9}}), HasSubstr("is grey (1 channel); expected in colour"));
  const auto colours = SampleOf("rgb.png", {.shape = {3, 7, 5}});
  const auto grey = SampleOf("rgb.png", {.shape = {1, 7, 5}, .convert_colors = true});
  for (size_t i = 0; i < 35; ++i) {
    EXPECT_NEAR(grey[i], 0.299 * colours[i] + 0.587 * colours[35 + i] + 0.114 * colours[70 + i], 1e-6);
  }
  const auto plane = SampleOf("grey.png", {.shape = {1, 4, 9}});
  const auto repeated = SampleOf("grey.png", {.shape = {3, 4, 9}, .convert_colors = true});
  for (size_t i = 0; i < 108; ++i) EXPECT_EQ(repeated[i], plane[i % 36]);
}

TEST(ImageSample, ResizesOnlyWhenAsked) {
  EXPECT_THAT(ErrorOf(ErrorCode::kDataLoss,
                      [] {
                        SampleOf("grey.png", {.shape = {1, 9, 4}});
                      }),
              HasSubstr("has 9 x 4 pixels; expected 4 x 9, or resize"));
  // One pixel is the mean of all (a triangle over one output is flat but for its slope: symmetric pairs
  // agree).
  const auto whole = SampleOf("grey.png", {.shape = {1, 4, 9}});
  const auto same = SampleOf("grey.png", {.shape = {1, 4, 9}, .resize = true});
  EXPECT_EQ(same, whole);
  const auto wide = SampleOf("grey.png", {.shape = {3, 2, 18}, .resize = true, .convert_colors = true});
  for (size_t i = 0; i < 36; ++i) EXPECT_EQ(wide[i], wide[i + 72]);
}

std::string BigEndian(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

std::string Chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return BigEndian(static_cast<uint32_t>(data.size())) + body + BigEndian(static_cast<uint32_t>(sum));
}

// Black and white, one bit a pixel: a file far smaller than its pixels.
std::string StripedPng(uint32_t side) {
  std::string rows;
  for (uint32_t y = 0; y < side; ++y) rows += '\0' + std::string(side / 8, y % 2 == 0 ? '\x0f' : '\xcc');
  uLongf size = compressBound(rows.size());
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()),
           rows.size());
  packed.resize(size);
  const std::string header = BigEndian(side) + BigEndian(side) + std::string("\1\0\0\0\0", 5);
  return "\x89PNG\r\n\x1a\n" + Chunk("IHDR", header) + Chunk("IDAT", packed) + Chunk("IEND", "");
}

TEST(ImageSample, ResizedInRowsIsResizedAsAWhole) {
  const std::string bytes = StripedPng(64);
  const Image image = DecodeImage(AsBytes(bytes), "striped").OrThrow();
  std::vector<float> plane;
  for (const uint8_t value : image.pixels) plane.push_back(static_cast<float>(value) / 255.0f);
  for (const Shape& to : {Shape{1, 5, 7}, Shape{1, 100, 3}, Shape{1, 1, 64}, Shape{1, 64, 200}}) {
    std::vector<float> whole(static_cast<size_t>(to.size())), rows(whole.size());
    ResizePlanes({1, 64, 64}, plane, to, whole, /*antialias=*/true);
    DecodeSample(AsBytes(bytes), "striped", {.shape = to, .resize = true}, rows).OrThrow();
    EXPECT_EQ(rows, whole) << to;
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// What decoding says in a process that may take `more` bytes than it has.
[[noreturn]] void DecodeWithin(size_t more, const std::string& bytes, const ImageOptions& options) {
  std::vector<float> sample(static_cast<size_t>(options.shape.size()));
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t limit = pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE)) + more;
  const rlimit limits{limit, limit};
  ::setrlimit(RLIMIT_AS, &limits);
  const Status status = DecodeSample(AsBytes(bytes), "large.png", options, sample);
  if (!status) std::cerr << ErrorCodeName(status.failure().code) << ": " << status.failure().message;
  std::_Exit(status ? 0 : 1);
}

TEST(ImageSampleDeathTest, MemoryIsForTheDecodedBytesAlone) {
  const std::string bytes = StripedPng(4096);  // 16 MiB, as three planes of floats 192 MiB
  const ImageOptions options{.shape = {3, 8, 8}, .resize = true, .convert_colors = true};
  EXPECT_EXIT(DecodeWithin(size_t{24} << 20, bytes, options), ::testing::ExitedWithCode(0), "");
}

// The signature and the header of a PNG are 33 bytes.
TEST(ImageSampleDeathTest, AChunkTakesNoMemoryForWhatItClaimsToHold) {
  const std::string whole = Golden("rgb.png");
  for (const char* type : {"sPLT", "iCCP", "zTXt", "iTXt", "tEXt", "eXIf", "pCAL", "wxYZ"}) {
    const std::string chunk = std::string({'\x20', '\0', '\0', '\0'}) + type;  // 512 MiB
    const ImageOptions options{.shape = {3, 7, 5}};
    EXPECT_EXIT(DecodeWithin(size_t{16} << 20, whole.substr(0, 33) + chunk + whole.substr(33), options),
                ::testing::ExitedWithCode(1), "data loss: 'large.png' is a damaged PNG.*it ends too early")
        << type;
  }
}

TEST(ImageSampleDeathTest, RefusedMemoryNamesTheFile) {
  const std::string bytes = StripedPng(16384);
  const ImageOptions options{.shape = {1, 8, 8}, .resize = true};
  EXPECT_EXIT(DecodeWithin(size_t{8} << 20, bytes, options), ::testing::ExitedWithCode(1),
              "resource exhausted: 'large.png': no memory to decode it");
}
#endif

std::shared_ptr<ImageFolderDataset> Folder(const TemporaryFolder& folder, ImageOptions options) {
  return std::make_shared<ImageFolderDataset>(folder.path(), std::move(options));
}

TEST(ImageFolder, ClassesAndFilesAreSorted) {
  const TemporaryFolder folder;
  folder.Put("zebra/b.png", Golden("rgb.png"));
  folder.Put("zebra/a.PNG", Golden("palette.png"));
  folder.Put("ant/10.jpg", Golden("rgb.jpg"));
  folder.Put("ant/9.jpeg", Golden("progressive.jpg"));
  folder.Put("ant/notes.txt", "not an image");
  folder.Put("ant/.hidden.png", "not an image");
  folder.Put("ant/deeper/x.png", "not an image");
  folder.Put("Bee/grey.png", Golden("rgb.jpg"));  // known by its bytes
  folder.Put("stray.png", "not an image");
  folder.Put(".cache/x.png", "not an image");
  const auto data = Folder(folder, {.shape = {3, 8, 8}, .resize = true});
  EXPECT_EQ(data->class_names(), (std::vector<std::string>{"Bee", "ant", "zebra"}));
  EXPECT_EQ(data->num_classes(), 3);
  ASSERT_EQ(data->size(), 5);
  std::vector<float> sample(192);
  std::vector<std::string> names;
  for (int64_t i = 0; i < 5; ++i) {
    names.push_back(data->path(i).substr(folder.path().size()));
    EXPECT_EQ(data->Get(i, sample), data->Label(i));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"Bee/grey.png", "ant/10.jpg", "ant/9.jpeg", "zebra/a.PNG",
                                             "zebra/b.png"}));
  EXPECT_EQ(data->Label(2), 1);
  data->Get(3, sample);
  EXPECT_EQ(sample, SampleOf("palette.png", {.shape = {3, 8, 8}}));
}

TEST(ImageFolder, ErrorsNameTheFile) {
  const TemporaryFolder folder;
  const ImageOptions options{.shape = {3, 7, 5}};
  EXPECT_THAT(ErrorOf(ErrorCode::kNotFound, [&] { Folder(folder, options); }),
              HasSubstr("has no sub-folder"));
  EXPECT_THAT(ErrorOf(ErrorCode::kNotFound, [&] { ImageFolderDataset(folder.path("none"), options); }),
              HasSubstr("cannot list the folder"));
  folder.Put("a/readme", "");
  EXPECT_THAT(ErrorOf(ErrorCode::kNotFound, [&] { Folder(folder, options); }), HasSubstr("/a' has no image"));
  folder.Put("a/1.png", Golden("rgb.png"));
  folder.Put("a/2.png", Golden("rgb.png").substr(0, 100));
  const auto data = Folder(folder, options);
  std::vector<float> sample(105);
  EXPECT_EQ(data->Get(0, sample), 0);
  EXPECT_THAT(ErrorOf(ErrorCode::kDataLoss, [&] { data->Get(1, sample); }),
              HasSubstr("/a/2.png' is a damaged PNG, near byte"));
  for (const Shape& shape :
       {Shape{3, 8}, Shape{2, 8, 8}, Shape{3, 0, 8}, Shape{}, Shape{1, 1 << 20, 1 << 20}}) {
    EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { Folder(folder, {.shape = shape}); }),
                HasSubstr("expected [channels, height, width]"));
  }
}

}  // namespace
}  // namespace sluice
