// Tests data/recordio.h: records as MXNet's im2rec writes them, and an error with file, record and byte for
// each field that is wrong.
#include "data/recordio.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/rng.h"
#include "sluice/error.h"
#include "sluice/image_files.h"
#include "unit/data/temporary_folder.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

const std::string kMagic("\x0a\x23\xd7\xce", 4);

template <typename T>
std::string Little(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::string Part(uint32_t flag, const std::string& contents) {
  const auto size = static_cast<uint32_t>(contents.size());
  return kMagic + Little(flag << 29 | size) + contents + std::string((4 - size % 4) % 4, '\0');
}

// As dmlc-core's writer: the contents are cut where the magic number lies at a multiple of 4.
std::string Written(const std::string& contents) {
  std::vector<std::string> parts(1);
  for (size_t at = 0; at < contents.size(); at += 4) {
    const std::string word = contents.substr(at, 4);
    if (word == kMagic) {
      parts.emplace_back();
    } else {
      parts.back() += word;
    }
  }
  if (parts.size() == 1) return Part(0, contents);
  std::string bytes;
  for (size_t i = 0; i < parts.size(); ++i)
    bytes += Part(i == 0 ? 1 : i + 1 == parts.size() ? 3 : 2, parts[i]);
  return bytes;
}

RecordSource SourceOf(const std::string& bytes) {
  return {"file.rec", bytes.size(), [&bytes](uint64_t offset, MutableBytes into) {
            EXPECT_LE(offset + into.size(), bytes.size());
            std::copy_n(AsBytes(bytes).begin() + static_cast<ptrdiff_t>(offset), into.size(), into.begin());
            return Status::Ok();
          }};
}

std::string Read(const std::string& bytes, uint64_t offset = 0) {
  const auto record = ReadRecord(SourceOf(bytes), offset, 1 << 20);
  return record ? std::string(AsText(record.value().contents)) : record.failure().message;
}

TEST(RecordIo, RecordsComeBackWhole) {
  Rng rng(4);
  std::string file;
  std::vector<std::string> contents;
  std::vector<uint64_t> offsets;
  for (int i = 0; i < 300; ++i) {
    std::string record;
    const uint64_t words = rng.Below(8);
    for (uint64_t w = 0; w < words; ++w)
      record += rng.Chance(.3) ? kMagic : Little(static_cast<uint32_t>(rng.Next()));
    record += std::string(rng.Below(4), '.');
    offsets.push_back(file.size());
    contents.push_back(record);
    file += Written(record);
  }
  const RecordSource source = SourceOf(file);
  EXPECT_EQ(FindRecords(source).OrThrow(), offsets);
  for (size_t i = 0; i < contents.size(); ++i) {
    const Record record = ReadRecord(source, offsets[i]).OrThrow();
    EXPECT_EQ(AsText(record.contents), contents[i]);
    EXPECT_EQ(record.end, i + 1 < offsets.size() ? offsets[i + 1] : file.size());
    for (const uint64_t size : {0, 3, 9, 1000})
      EXPECT_EQ(AsText(ReadRecordHead(source, offsets[i], size).OrThrow()), contents[i].substr(0, size));
  }
  EXPECT_TRUE(FindRecords(SourceOf("")).OrThrow().empty());
}

TEST(RecordIo, EveryFieldIsChecked) {
  const std::string good = Part(0, "abcd");
  EXPECT_EQ(Read(good), "abcd");
  EXPECT_THAT(Read(good, 4),
              HasSubstr("'file.rec', byte 4: a record begins with 0x00000004; expected 0xced7230a"));
  EXPECT_THAT(Read(good.substr(0, 7)),
              HasSubstr("byte 0: a record's header of 8 bytes begins here, but only 7"));
  EXPECT_THAT(Read(good, 1000), HasSubstr("byte 1000"));
  EXPECT_THAT(Read(good.substr(0, 11)),
              HasSubstr("the record has 4 bytes, but only 3 follow; the file is truncated"));
  EXPECT_THAT(Read(Part(0, "abc").substr(0, 11)), HasSubstr("truncated")) << "padding belongs to a record";
  EXPECT_THAT(Read(Part(5, "abcd")), HasSubstr("the record's flag is 5; expected 0 to 3"));
  EXPECT_THAT(Read(Part(2, "abcd")), HasSubstr("the flag is 2, but a record begins here"));
  EXPECT_THAT(Read(Part(1, "abcd")), HasSubstr("byte 12: a record's header"));
  EXPECT_THAT(Read(Part(1, "abcd") + good), HasSubstr("byte 12: the flag is 0, but a record goes on here"));
  EXPECT_THAT(Read(Part(1, "abc") + Part(3, "")), HasSubstr("a part that another follows has 3 bytes"));
  EXPECT_THAT(Read(kMagic + Little(0x1fffffffu)), HasSubstr("has 536870911 bytes, but only 0 follow"));
  const std::string long_one = Part(1, std::string(1 << 19, 'x')) + Part(3, std::string(1 << 19, 'x'));
  EXPECT_THAT(Read(long_one), HasSubstr("longer than 1048576 bytes"));
}

TEST(RecordIo, AnIndexNamesPositions) {
  const auto parse = [](std::string_view text) { return ParseRecordIndex(text, "file.idx", 100); };
  EXPECT_EQ(parse("0\t0\n7\t96\r\n\n3\t4").OrThrow(), (std::vector<uint64_t>{0, 96, 4}));
  EXPECT_THAT(parse("0\t0\n1 4\n").failure().message, HasSubstr("'file.idx', line 2 is '1 4'"));
  EXPECT_THAT(parse("a\t0\n").failure().message, HasSubstr("line 1"));
  EXPECT_THAT(parse("0\t\n").failure().message, HasSubstr("line 1"));
  for (const char* line : {"0\t100", "0\t-4", "0\t6"})
    EXPECT_THAT(parse(line).failure().message, HasSubstr("expected a multiple of 4 below 100"));
}

std::string ImageRecordOf(uint32_t flag, float label, const std::string& rest) {
  return Little(flag) + Little(label) + Little(uint64_t{5}) + Little(uint64_t{0}) + rest;
}

TEST(RecordIo, AnImagesHeaderIsChecked) {
  const auto parse = [](const std::string& record) {
    return ParseImageRecord(AsBytes(record), "file.rec", 8, 3);
  };
  const auto plain = ImageRecordOf(0, 2, "jpeg");
  EXPECT_EQ(parse(plain).OrThrow().label, 2);
  EXPECT_EQ(AsText(parse(plain).OrThrow().image), "jpeg");
  const auto array = ImageRecordOf(1, -7, Little(1.0f) + "jpeg");
  EXPECT_EQ(parse(array).OrThrow().label, 1);
  EXPECT_EQ(AsText(parse(array).OrThrow().image), "jpeg");
  const auto why = [&](const std::string& record) { return parse(record).failure().message; };
  EXPECT_THAT(why(plain.substr(0, 23)),
              HasSubstr("'file.rec', byte 8: the record has 23 bytes; an image's header has 24"));
  EXPECT_THAT(why(ImageRecordOf(1, 0, "abc")), HasSubstr("has 27 bytes; an image's header has 28"));
  EXPECT_THAT(why(ImageRecordOf(2, 0, "abcdefgh")), HasSubstr("the image has 2 labels"));
  for (const float label : {3.0f, -1.0f, 0.5f, NAN, 1e30f})
    EXPECT_THAT(why(ImageRecordOf(0, label, "")), HasSubstr("expected a whole number from 0 to 2"));
}

std::string GoldenRecords(const std::string& name) {
  std::ifstream file(SLUICE_SOURCE_DIR "/tests/golden/images/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class ImageRecords : public ::testing::Test {
 protected:
  // Three images; the index lists the last and the first.
  ImageRecords() {
    std::string bytes, index;
    for (const auto& [label, name] : {std::pair{1, "rgb.png"}, {0, "rgb.jpg"}, {4, "palette.png"}}) {
      offsets_.push_back(bytes.size());
      bytes += Written(ImageRecordOf(0, static_cast<float>(label), GoldenRecords(name)));
    }
    folder_.Put("a.rec", bytes);
    folder_.Put("other.idx", "2\t" + std::to_string(offsets_[2]) + "\n0\t0\n");
  }
  ImageRecordOptions Options() const { return {.image = {.shape = {3, 8, 8}, .resize = true}}; }
  std::vector<int32_t> LabelsOf(const ImageRecordDataset& data) const {
    std::vector<int32_t> labels;
    std::vector<float> sample(192);
    for (int64_t i = 0; i < data.size(); ++i) {
      labels.push_back(data.Get(i, sample));
      EXPECT_EQ(data.Label(i), labels.back());
    }
    return labels;
  }
  const TemporaryFolder folder_;
  std::vector<uint64_t> offsets_;
};

TEST_F(ImageRecords, AreReadWithAndWithoutAnIndex) {
  const ImageRecordDataset all(folder_.path("a.rec"), Options());
  EXPECT_EQ(LabelsOf(all), (std::vector<int32_t>{1, 0, 4}));
  EXPECT_EQ(all.num_classes(), 5);
  EXPECT_EQ(all.sample_shape(), (Shape{3, 8, 8}));
  auto options = Options();
  options.index_path = folder_.path("other.idx");
  options.num_classes = 10;
  const ImageRecordDataset some(folder_.path("a.rec"), options);
  EXPECT_EQ(LabelsOf(some), (std::vector<int32_t>{4, 1}));
  EXPECT_EQ(some.num_classes(), 10);
  folder_.Put("a.idx", "1\t" + std::to_string(offsets_[1]) + "\n");  // found beside it
  EXPECT_EQ(LabelsOf(ImageRecordDataset(folder_.path("a.rec"), Options())), (std::vector<int32_t>{0}));
}

TEST_F(ImageRecords, ErrorsNameFileRecordAndByte) {
  auto options = Options();
  options.image.resize = false;
  std::vector<float> sample(192);
  const ImageRecordDataset data(folder_.path("a.rec"), options);
  EXPECT_EQ(data.Get(2, sample), 4);
  EXPECT_THAT(ErrorOf(ErrorCode::kDataLoss, [&] { data.Get(1, sample); }),
              HasSubstr("a.rec, record 1 at byte " + std::to_string(offsets_[1]) + "' has 21 x 19 pixels"));
  options.num_classes = 2;
  const ImageRecordDataset two(folder_.path("a.rec"), options);
  EXPECT_THAT(ErrorOf(ErrorCode::kDataLoss, [&] { two.Label(2); }),
              HasSubstr("byte " + std::to_string(offsets_[2]) + ": the image's label is 4"));
  const auto refused = [&](ErrorCode code, const std::string& file, const ImageRecordOptions& with) {
    return ErrorOf(code, [&] { ImageRecordDataset(file, with); });
  };
  refused(ErrorCode::kNotFound, folder_.path("none.rec"), Options());
  options.index_path = folder_.path("none.idx");
  refused(ErrorCode::kNotFound, folder_.path("a.rec"), options);
  EXPECT_THAT(refused(ErrorCode::kDataLoss, folder_.Put("empty.rec", ""), Options()),
              HasSubstr("has no record"));
  EXPECT_THAT(refused(ErrorCode::kDataLoss, folder_.Put("bad.rec", "no record"), Options()),
              HasSubstr("byte 0"));
  EXPECT_THAT(refused(ErrorCode::kInvalidArgument, folder_.path("a.rec"), {.image = {.shape = {3}}}),
              HasSubstr("[3]"));
  options.index_path = folder_.Put("nothing.idx", "\n");
  EXPECT_THAT(refused(ErrorCode::kDataLoss, folder_.path("a.rec"), options),
              HasSubstr("nothing.idx' lists no record"));
  options = Options();
  options.num_classes = -1;
  EXPECT_THAT(refused(ErrorCode::kInvalidArgument, folder_.path("a.rec"), options),
              HasSubstr("num_classes is -1"));
}

}  // namespace
}  // namespace sluice
