// Tests SaveParameters and LoadParameters: bits and types come back on every context, and a file that does
// not fit the model changes nothing.
#include "sluice/parameters_file.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "data/safetensors/safetensors.h"
#include "sluice/checkpoint.h"
#include "sluice/error.h"
#include "sluice/nn.h"
#include "unit/expect_error.h"
#include "unit/train/toy.h"

namespace sluice::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ParametersFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "sluice-parameters-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string Path() const { return folder_ / "net.safetensors"; }

  // Loading must fail, say why, and leave `parameters` as they are.
  std::string WhyRefused(const nn::ParameterDict& parameters) {
    const auto values = [&] {
      std::vector<std::vector<float>> all;
      for (const auto& parameter : parameters) {
        if (!parameter->initialized()) continue;
        for (const NDArray& data : parameter->list_data())
          all.push_back(data.AsType(DType::kFloat32).ToVector());
      }
      return all;
    };
    const auto before = values();
    std::string why = "accepted";
    try {
      LoadParameters(Path(), parameters);
    } catch (const Error& error) {
      why = error.what();
    }
    EXPECT_EQ(values(), before);
    return why;
  }

  fs::path folder_;
};

nn::ParameterDict DictOf(const std::vector<std::shared_ptr<nn::Parameter>>& parameters) {
  nn::ParameterDict dict;
  for (const auto& parameter : parameters) dict.Add(parameter);
  return dict;
}

TEST_F(ParametersFile, ValuesComeBackOnEveryContext) {
  const auto saved =
      DictOf({MakeParameter("fc.weight", {1, -2, 3}, Cpus(2)), MakeParameter("fc.bias", {0.1f}, Cpus(2))});
  SaveParameters(Path(), saved);
  const auto loaded =
      DictOf({MakeParameter("fc.bias", {0}, Cpus(3)), MakeParameter("fc.weight", {0, 0, 0}, Cpus(3))});
  LoadParameters(Path(), loaded);
  for (const Context& context : Cpus(3)) {
    EXPECT_THAT(loaded["fc.weight"].data(context).ToVector(), ElementsAre(1, -2, 3));
    EXPECT_THAT(loaded["fc.bias"].data(context).ToVector(), ElementsAre(0.1f));
  }
}

// Each context's BatchNorm has seen samples of its own.
TEST_F(ParametersFile, StatisticsAreSavedAsTheirMeanOverTheContexts) {
  const auto saved = DictOf({MakeParameter("mean", {0, 0.1f}, Cpus(3), {.differentiable = false})});
  const std::vector<std::vector<float>> first = {{1}, {2}, {6}};
  for (int i = 0; i < 3; ++i)
    saved["mean"].data(cpu(i)).SliceRows(0, 1).SetBytes(
        std::as_bytes(std::span(first[static_cast<size_t>(i)])));
  SaveParameters(Path(), saved);
  const auto loaded = DictOf({MakeParameter("mean", {0, 0}, Cpus(2), {.differentiable = false})});
  LoadParameters(Path(), loaded);
  for (const Context& context : Cpus(2))
    EXPECT_THAT(loaded["mean"].data(context).ToVector(), ElementsAre(3, 0.1f));  // equal ones to the last bit
}

TEST_F(ParametersFile, SixteenBitValuesKeepTheirBits) {
  const nn::ParameterOptions half{.dtype = DType::kFloat16};
  const auto make = [&](float value) {
    auto parameter = std::make_shared<nn::Parameter>("h", Shape{2}, half);
    parameter->Initialize({cpu(0)}, std::make_shared<nn::Constant>(value));
    return DictOf({parameter});
  };
  SaveParameters(Path(), make(0.1f));
  const auto loaded = make(0);
  LoadParameters(Path(), loaded);
  for (const Half value : loaded["h"].data(cpu(0)).ToVector<Half>())
    EXPECT_EQ(value.bits, 0x2e66);  // the binary16 nearest to 0.1
}

std::shared_ptr<nn::Parameter> Typed(DType dtype, const Shape& shape, const std::vector<Context>& contexts) {
  auto parameter = std::make_shared<nn::Parameter>("w", shape, nn::ParameterOptions{.dtype = dtype});
  parameter->Initialize(contexts, std::make_shared<nn::Zero>());
  return parameter;
}

// Rounds `value` to the nearest number with so many bits of significand and no exponent below, by a search in
// the neighbours, all exact in double. Between two as near, the one with an even last bit is taken.
double Nearest(double value, int significand, int least_exponent) {
  const int exponent = std::max(value == 0 ? least_exponent : std::ilogb(value), least_exponent);
  const double unit = std::ldexp(1.0, exponent - significand + 1), below = std::floor(value / unit) * unit;
  const double to_below = value - below, to_above = below + unit - value;
  if (to_below != to_above) return to_below < to_above ? below : below + unit;
  return std::fmod(below / unit, 2) == 0 ? below : below + unit;
}

std::vector<float> NumbersToRound() {
  std::vector<float> numbers = {0,
                                1,
                                1 + 0x1p-8f,
                                1 + 0x3p-8f,
                                -1 - 0x1p-8f,
                                0x1p-11f + 1,
                                0x3p-11f + 1,
                                1 + 0x1.1p-8f,
                                1 - 0x1p-9f,
                                0x1p-24f,
                                0x1p-25f,
                                0x1.8p-24f,
                                0x1p-126f,
                                -0x1.01p-130f,
                                65504};
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  while (numbers.size() < 3000) numbers.push_back(normal(random));
  return numbers;
}

TEST_F(ParametersFile, NarrowerTypesGetTheNearestValueOnEveryContext) {
  const std::vector<float> numbers = NumbersToRound();
  const auto wide = MakeParameter("w", numbers, {cpu(0)});
  SaveParameters(Path(), DictOf({wide}));
  for (const auto& [dtype, significand, least_exponent] :
       {std::tuple(DType::kBFloat16, 8, -126), {DType::kFloat16, 11, -14}}) {
    const auto narrow = Typed(dtype, wide->shape(), Cpus(2));
    LoadParameters(Path(), DictOf({narrow}));
    EXPECT_EQ(narrow->dtype(), dtype);
    for (const Context& context : Cpus(2)) {
      const auto loaded = narrow->data(context).AsType(DType::kFloat32).ToVector();
      for (size_t i = 0; i < numbers.size(); ++i)
        EXPECT_EQ(loaded[i], Nearest(numbers[i], significand, least_exponent))
            << Name(dtype) << " " << numbers[i];
    }
  }
}

TEST_F(ParametersFile, WiderTypesKeepEveryValue) {
  const std::vector<uint16_t> bits = {0x3f80, 0x3dcd, 0xbf01, 0x0001, 0x8000, 0x7f7f, 0x7f80};
  const std::vector<float> values = {1, 0x1.9ap-4f, -0x1.02p-1f, 0x1p-133f, -0.0f, 0x1.fep127f, INFINITY};
  const auto narrow = Typed(DType::kBFloat16, {7}, {cpu(0)});
  narrow->data(cpu(0)).SetBytes(std::as_bytes(std::span(bits)));
  SaveParameters(Path(), DictOf({narrow}));
  const auto wide = Typed(DType::kFloat32, {7}, Cpus(2));
  LoadParameters(Path(), DictOf({wide}));
  for (const Context& context : Cpus(2)) EXPECT_EQ(wide->data(context).ToVector(), values);
}

TEST_F(ParametersFile, BeyondTheRangeOfATypeIsInfinite) {
  SaveParameters(Path(), DictOf({MakeParameter("w", {1e6f, -1e6f, NAN}, {cpu(0)})}));
  const auto half = Typed(DType::kFloat16, {3}, {cpu(0)});
  LoadParameters(Path(), DictOf({half}));
  const auto loaded = half->data(cpu(0)).AsType(DType::kFloat32).ToVector();
  EXPECT_EQ(loaded[0], INFINITY);
  EXPECT_EQ(loaded[1], -INFINITY);
  EXPECT_TRUE(std::isnan(loaded[2]));
}

TEST_F(ParametersFile, ADeferredNetworkOfAnotherTypeIsFilledToo) {
  nn::Dense known(2, {.in_units = 3}), deferred(2);
  known.CollectParams().Initialize({cpu(0)}, nullptr, 5);
  deferred.CollectParams().Cast(DType::kBFloat16);
  deferred.CollectParams().Initialize({cpu(0)}, nullptr, 6);
  SaveParameters(Path(), known.CollectParams());
  LoadParameters(Path(), deferred.CollectParams());
  const auto loaded = deferred.weight().data(cpu(0)).AsType(DType::kFloat32).ToVector();
  const auto saved = known.weight().data(cpu(0)).ToVector();
  ASSERT_EQ(loaded.size(), saved.size());
  for (size_t i = 0; i < saved.size(); ++i) EXPECT_EQ(loaded[i], Nearest(saved[i], 8, -126));
}

TEST_F(ParametersFile, TypesAreConvertedUnlessTheCallerRefuses) {
  SaveParameters(Path(), DictOf({MakeParameter("w", {1, 2}, {cpu(0)})}));
  const auto half = Typed(DType::kBFloat16, {2}, {cpu(0)});
  const std::string why = ErrorOf(ErrorCode::kInvalidArgument,
                                  [&] { LoadParameters(Path(), DictOf({half}), {.cast_dtype = false}); });
  EXPECT_THAT(why, AllOf(HasSubstr(Path()), HasSubstr("parameter w is float32 [2]"),
                         HasSubstr("bfloat16 [2]"), HasSubstr("LoadParameters")));
  EXPECT_THAT(half->data(cpu(0)).AsType(DType::kFloat32).ToVector(), ElementsAre(0, 0));
}

TEST_F(ParametersFile, ACheckpointIsOfOneType) {
  const std::string prefix = folder_ / "run", file = CheckpointFile(prefix, {1, 0});
  SaveParameters(file, DictOf({MakeParameter("w", {1, 2}, {cpu(0)})}));
  const auto half = Typed(DType::kBFloat16, {2}, {cpu(0)});
  const std::string why = ErrorOf(ErrorCode::kInvalidArgument, [&] {
    LoadCheckpoint(prefix, {1, 0}, DictOf({half}));
  });
  EXPECT_THAT(why, AllOf(HasSubstr(file), HasSubstr("w is float32 [2]"), HasSubstr("bfloat16 [2]")));
}

TEST_F(ParametersFile, WholeNumbersAreNoParametersOfAnotherType) {
  const std::vector<int32_t> numbers = {1, 2};
  WriteSafetensors(Path(),
                   std::vector<TensorView>{{"w", DType::kInt32, {2}, std::as_bytes(std::span(numbers))}})
      .OrThrow();
  EXPECT_THAT(WhyRefused(DictOf({MakeParameter("w", {5, 6}, {cpu(0)})})),
              AllOf(HasSubstr("parameter w is int32 [2]"), HasSubstr("float32 [2]")));
}

TEST_F(ParametersFile, MetadataAreReadWithoutAModel) {
  SaveParameters(Path(), DictOf({MakeParameter("a", {1}, {cpu(0)})}), {{"labels", "bad\ngood"}});
  EXPECT_EQ(ReadFileMetadata(Path()).at("labels"), "bad\ngood");
  EXPECT_THROW(ReadFileMetadata(Path() + ".none"), Error);
}

TEST_F(ParametersFile, FillsInShapesThatWereDeferred) {
  nn::Dense known(2, {.in_units = 3}), deferred(2);
  known.CollectParams().Initialize({cpu(0)}, nullptr, 5);
  deferred.CollectParams().Initialize({cpu(0)}, nullptr, 6);
  SaveParameters(Path(), known.CollectParams());
  LoadParameters(Path(), deferred.CollectParams());
  EXPECT_EQ(deferred.weight().shape(), (Shape{2, 3}));
  EXPECT_EQ(deferred.weight().data(cpu(0)).ToVector(), known.weight().data(cpu(0)).ToVector());
}

TEST_F(ParametersFile, WhatADeferredShapeLeavesOpenIsAQuestionMark) {
  nn::Dense known(3, {.in_units = 3}), deferred(2);
  known.CollectParams().Initialize({cpu(0)}, nullptr, 5);
  deferred.CollectParams().Initialize({cpu(0)}, nullptr, 6);
  SaveParameters(Path(), known.CollectParams());
  EXPECT_THAT(WhyRefused(deferred.CollectParams()),
              HasSubstr("weight is float32 [3, 3]; the model has float32 [2, ?]"));
}

TEST_F(ParametersFile, RefusesAFileWithoutAParameter) {
  SaveParameters(Path(), DictOf({MakeParameter("a", {1}, {cpu(0)})}));
  EXPECT_THAT(WhyRefused(DictOf({MakeParameter("a", {5}, {cpu(0)}), MakeParameter("b", {6}, {cpu(0)})})),
              AllOf(HasSubstr(Path()), HasSubstr("parameter b is missing")));
}

TEST_F(ParametersFile, RefusesAFileWithMore) {
  SaveParameters(Path(), DictOf({MakeParameter("a", {1}, {cpu(0)}), MakeParameter("b", {2}, {cpu(0)})}));
  EXPECT_THAT(WhyRefused(DictOf({MakeParameter("a", {5}, {cpu(0)})})),
              AllOf(HasSubstr(Path()), HasSubstr("holds b"), HasSubstr("it has a")));
}

TEST_F(ParametersFile, RefusesAnotherShape) {
  SaveParameters(Path(), DictOf({MakeParameter("a", {1}, {cpu(0)}), MakeParameter("b", {1, 2}, {cpu(0)})}));
  EXPECT_THAT(
      WhyRefused(DictOf({MakeParameter("a", {5}, {cpu(0)}), MakeParameter("b", {1, 2, 3}, {cpu(0)})})),
      AllOf(HasSubstr("parameter b is float32 [2]"), HasSubstr("float32 [3]")));
}

TEST_F(ParametersFile, RefusesAParameterThatHasNoContextYet) {
  SaveParameters(Path(), DictOf({MakeParameter("a", {1}, {cpu(0)}), MakeParameter("b", {2}, {cpu(0)})}));
  const auto nowhere = std::make_shared<nn::Parameter>("b", Shape{1});
  EXPECT_THAT(WhyRefused(DictOf({MakeParameter("a", {5}, {cpu(0)}), nowhere})),
              HasSubstr("parameter b is on no context yet"));
}

TEST_F(ParametersFile, RefusesATruncatedFileAtEveryLength) {
  const auto saved = DictOf({MakeParameter("a", {1, 2, 3}, {cpu(0)})});
  SaveParameters(Path(), saved);
  const auto whole = fs::file_size(Path());
  const auto parameters = DictOf({MakeParameter("a", {5, 6, 7}, {cpu(0)})});
  for (auto length = whole; length-- > 0;) {
    fs::resize_file(Path(), length);
    EXPECT_THAT(WhyRefused(parameters), HasSubstr(Path())) << length << " of " << whole << " bytes";
  }
}

TEST_F(ParametersFile, RefusesBytesBehindTheLastArray) {
  SaveParameters(Path(), DictOf({MakeParameter("a", {1}, {cpu(0)})}));
  std::ofstream(Path(), std::ios::app) << '\0';
  EXPECT_THAT(WhyRefused(DictOf({MakeParameter("a", {5}, {cpu(0)})})), HasSubstr(Path()));
}

TEST_F(ParametersFile, AMissingFileIsNamed) {
  EXPECT_THAT(WhyRefused(DictOf({MakeParameter("a", {5}, {cpu(0)})})), HasSubstr(Path()));
}

TEST_F(ParametersFile, SavingOverAFileReplacesIt) {
  SaveParameters(Path(), DictOf({MakeParameter("a", std::vector<float>(1000, 1), {cpu(0)})}));
  SaveParameters(Path(), DictOf({MakeParameter("a", {2}, {cpu(0)})}));
  const auto parameters = DictOf({MakeParameter("a", {5}, {cpu(0)})});
  LoadParameters(Path(), parameters);
  EXPECT_THAT(parameters["a"].data(cpu(0)).ToVector(), ElementsAre(2));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace sluice::testing
