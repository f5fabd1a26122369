#include "sluice/parameters_file.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "sluice/error.h"
#include "sluice/nn.h"
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

TEST_F(ParametersFile, RefusesAnotherShapeOrType) {
  SaveParameters(Path(), DictOf({MakeParameter("a", {1}, {cpu(0)}), MakeParameter("b", {1, 2}, {cpu(0)})}));
  EXPECT_THAT(
      WhyRefused(DictOf({MakeParameter("a", {5}, {cpu(0)}), MakeParameter("b", {1, 2, 3}, {cpu(0)})})),
      AllOf(HasSubstr("parameter b is float32 [2]"), HasSubstr("float32 [3]")));
  const auto half =
      std::make_shared<nn::Parameter>("b", Shape{2}, nn::ParameterOptions{.dtype = DType::kFloat16});
  half->Initialize({cpu(0)}, std::make_shared<nn::Zero>());
  EXPECT_THAT(WhyRefused(DictOf({half, MakeParameter("a", {5}, {cpu(0)})})),
              AllOf(HasSubstr("parameter b is float32 [2]"), HasSubstr("float16 [2]")));
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
