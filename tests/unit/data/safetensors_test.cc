// Tests data/safetensors: the bytes of the format, and a refusal of every file that does not keep to it.
#include "data/safetensors/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/rng.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

class Safetensors : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "sluice-safetensors-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string Path() const { return folder_ / "p.safetensors"; }
  std::string RawFile() const {
    std::ifstream file(Path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  fs::path folder_;
};

std::string FileOf(const std::string& header, const std::string& data = "") {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return bytes + header + data;
}

std::string WhySafetensorsRefused(const std::string& file) {
  const auto index = ParseSafetensors(AsBytes(file), "p");
  return index ? "accepted" : index.failure().message;
}

template <typename T>
TensorView ViewOf(const std::string& name, const std::vector<T>& values, const Shape& shape) {
  return {name, DTypeOf<T>::value, shape, std::as_bytes(std::span(values))};
}

TEST_F(Safetensors, WritesTheBytesOfTheFormat) {
  const std::vector<float> weight = {1.0f, -2.0f};
  ASSERT_TRUE(
      WriteSafetensors(Path(), std::vector{ViewOf("fc.weight", weight, Shape{1, 2})}, {{"step", "7"}}));
  const std::string header =
      R"({"__metadata__":{"step":"7"},"fc.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(RawFile(), FileOf(padded, std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8)));
}

TEST_F(Safetensors, ReadsWhatOthersWriteUnpaddedAndOutOfOrder) {
  const std::string file = FileOf(
      R"({ "b":{"data_offsets":[4,8],"dtype":"I32","shape":[]}, "\u00e9":{"shape":[2,2],"dtype":"U8","data_offsets":[0,4]} })",
      std::string("\x01\x02\x03\x04\xff\xff\xff\xff", 8));
  const auto index = ParseSafetensors(AsBytes(file), "p");
  ASSERT_TRUE(index.ok()) << index.failure().message;
  ASSERT_EQ(index.value().tensors.size(), 2u);
  EXPECT_EQ(index.value().tensors[0].name, "b");
  const TensorView* accent = index.value().Find("\xc3\xa9");
  ASSERT_NE(accent, nullptr);
  EXPECT_EQ(accent->shape, (Shape{2, 2}));
  EXPECT_EQ(AsText(accent->bytes), "\x01\x02\x03\x04");
  int32_t scalar = 0;
  std::memcpy(&scalar, index.value().Find("b")->bytes.data(), 4);
  EXPECT_EQ(scalar, -1);
  EXPECT_EQ(index.value().Find("c"), nullptr);
}

TEST_F(Safetensors, EveryTypeNameSurvivesAndEveryArrayIsAligned) {
  Rng rng(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::string> data;
    std::vector<TensorView> tensors;
    for (const DType dtype : kAllDTypes) {
      std::vector<int64_t> dims(rng.Below(4));
      for (auto& dim : dims) dim = static_cast<int64_t>(rng.Below(5));
      const Shape shape(dims);
      std::string bytes(static_cast<size_t>(shape.size()) * SizeOf(dtype), '\0');
      for (char& c : bytes) c = static_cast<char>(rng.Next());
      data.push_back(bytes);
      tensors.push_back({StrCat("quote\" \\ \n", Name(dtype)), dtype, shape, {}});
    }
    for (size_t i = 0; i < data.size(); ++i) tensors[i].bytes = AsBytes(data[i]);
    const Metadata metadata = {{"round", StrCat(round)}, {"", "\xe2\x82\xac"}};
    ASSERT_TRUE(WriteSafetensors(Path(), tensors, metadata));
    const auto file = ReadSafetensors(Path());
    ASSERT_TRUE(file.ok()) << file.failure().message;
    EXPECT_EQ(file.value().metadata, metadata);
    ASSERT_EQ(file.value().tensors.size(), tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const TensorView* found = file.value().Find(tensors[i].name);
      ASSERT_NE(found, nullptr) << tensors[i].name;
      EXPECT_EQ(found->dtype, tensors[i].dtype);
      EXPECT_EQ(found->shape, tensors[i].shape);
      EXPECT_EQ(AsText(found->bytes), data[i]);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(found->bytes.data()) % SizeOf(found->dtype), 0u);
    }
  }
}

TEST_F(Safetensors, RefusesWhatItsOffsetsDoNotCover) {
  const auto two = [](const std::string& first, const std::string& second) {
    return FileOf(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + first +
                      R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + second + "}}",
                  "1234");
  };
  EXPECT_EQ(WhySafetensorsRefused(two("[0,2]", "[2,4]")), "accepted");
  EXPECT_EQ(WhySafetensorsRefused(two("[2,4]", "[0,2]")), "accepted");
  EXPECT_NE(WhySafetensorsRefused(two("[0,2]", "[1,3]")).find("inside another"), std::string::npos);
  EXPECT_NE(WhySafetensorsRefused(two("[0,2]", "[0,2]")).find("inside another"), std::string::npos);
  EXPECT_NE(WhySafetensorsRefused(two("[1,3]", "[3,5]")).find("[3, 5]"), std::string::npos);
  EXPECT_NE(WhySafetensorsRefused(FileOf(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", "123"))
                .find("hole"),
            std::string::npos);
  EXPECT_NE(WhySafetensorsRefused(FileOf(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "123"))
                .find("3 follow"),
            std::string::npos);
  EXPECT_NE(WhySafetensorsRefused(two("[2,0]", "[2,4]")).find("[2, 0]"), std::string::npos);
}

TEST_F(Safetensors, RefusesASizeThatShapeAndTypeDoNotMake) {
  const auto one = [](const std::string& dtype, const std::string& shape) {
    return FileOf(R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[0,8]}})",
                  "12345678");
  };
  EXPECT_EQ(WhySafetensorsRefused(one("F32", "[2]")), "accepted");
  EXPECT_NE(WhySafetensorsRefused(one("F32", "[3]")).find("tensor 'w' has 8 bytes"), std::string::npos);
  EXPECT_NE(WhySafetensorsRefused(one("F64", "[2305843009213693953]")), "accepted")
      << "8 * (2^61 + 1) overflows to 8";
  EXPECT_NE(WhySafetensorsRefused(one("F32", "[4611686018427387904,4611686018427387904]")), "accepted");
  EXPECT_NE(WhySafetensorsRefused(one("BOOL", "[8]")).find("'BOOL'"), std::string::npos);
  EXPECT_NE(WhySafetensorsRefused(one("F32", "[-2]")).find("-2"), std::string::npos);
  EXPECT_NE(WhySafetensorsRefused(one("F32", "[2.0]")).find("2.0"), std::string::npos);
  EXPECT_NE(WhySafetensorsRefused(one("U8", "[1,1,1,1,1,1,1,1,8]")).find("axes"), std::string::npos);
}

TEST_F(Safetensors, RefusesHeadersOfAnotherForm) {
  for (
      const char* header :
      {"",
       "[]",
       "null",
       "7",
       "{",
       R"({"a":1})",
       R"({"a":[]})",
       R"({"a":{}})",
       R"({"a":{"dtype":"U8"}})",
       R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0]}})",
       R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}})",
       R"({"a":{"dtype":"U8","shape":[[0]],"data_offsets":[0,0]}})",
       R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":1}})",
       R"({"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
       R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
       R"({"__metadata__":{"a":1}})",
       R"({"__metadata__":{"a":{}}})",
       R"({"__metadata__":"a"})",
       "{} {}",
       "{\"\xff\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}"}) {
    EXPECT_NE(WhySafetensorsRefused(FileOf(header)), "accepted") << header;
  }
  EXPECT_EQ(WhySafetensorsRefused(FileOf("{}   ")), "accepted");
  EXPECT_NE(WhySafetensorsRefused(FileOf("null")).find("the safetensors header is null; expected an object"),
            std::string::npos);
  EXPECT_NE(WhySafetensorsRefused(FileOf(R"({"a":true})"))
                .find("'a' in the safetensors header holds a boolean; expected"),
            std::string::npos);
}

TEST_F(Safetensors, RefusesLengthsBeyondTheFileAndDeepNesting) {
  EXPECT_NE(WhySafetensorsRefused(""), "accepted");
  EXPECT_NE(WhySafetensorsRefused("1234567"), "accepted");
  EXPECT_NE(WhySafetensorsRefused(std::string(8, '\xff')).find("18446744073709551615"), std::string::npos);
  std::string cut = FileOf("{}");
  cut.pop_back();
  EXPECT_NE(WhySafetensorsRefused(cut), "accepted");
  std::string nested;
  for (int i = 0; i < 1'000'000; ++i) nested += R"({"a":)";
  EXPECT_NE(WhySafetensorsRefused(FileOf(nested)), "accepted");
  EXPECT_NE(WhySafetensorsRefused(FileOf(std::string(1'000'000, '['))), "accepted");
}

TEST_F(Safetensors, RefusesToWriteWhatCouldNotBeRead) {
  const std::vector<float> two = {1, 2};
  const TensorView good = ViewOf("w", two, Shape{2});
  EXPECT_FALSE(WriteSafetensors(Path(), std::vector{good, good}).ok());
  EXPECT_FALSE(WriteSafetensors(Path(), std::vector{ViewOf("__metadata__", two, Shape{2})}).ok());
  EXPECT_FALSE(WriteSafetensors(Path(), std::vector{ViewOf("w", two, Shape{3})}).ok());
  EXPECT_FALSE(WriteSafetensors(Path(), std::vector{ViewOf("\xff", two, Shape{2})}).ok());
  EXPECT_FALSE(WriteSafetensors(Path(), std::vector{good}, {{"a", "\xc3"}}).ok());
  EXPECT_FALSE(fs::exists(Path()));
}

TEST_F(Safetensors, AMissingFileIsNamed) {
  const auto file = ReadSafetensors(Path());
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.failure().code, ErrorCode::kNotFound);
  EXPECT_NE(file.failure().message.find("p.safetensors"), std::string::npos);
}

}  // namespace
}  // namespace sluice
