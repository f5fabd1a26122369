// Tests Embedding, EmbeddingBag and SequenceMean against formulas in float64, and parameters that several
// layers share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/strings.h"
#include "unit/expect_error.h"
#include "unit/nn/check_layer.h"
#include "unit/nn/message_of.h"

namespace sluice::nn {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
NDArray Ids(const std::vector<T>& ids, const Shape& shape) {
  return NDArray::From(std::span<const T>(ids), shape);
}

// Every row, some twice: their gradients add up.
TEST(EmbeddingTest, MatchesTheReference) {
  for (const int64_t dim : {int64_t{1}, int64_t{3}, int64_t{70}}) {
    Rng rng(static_cast<uint64_t>(dim));
    const std::vector<int32_t> ids = {4, 0, 2, 2, 4, 4, 1, 0};
    const Tensor weight = Random({6, dim}, &rng), head = Random({4, 2, dim}, &rng);
    Tensor expected({4, 2, dim}), gradient({6, dim});
    for (int64_t i = 0; i < 8 * dim; ++i) {
      const int64_t at = ids[static_cast<size_t>(i / dim)] * dim + i % dim;
      expected.at(i) = weight.at(at);
      gradient.at(at) += head.at(i);
    }
    Embedding layer(6, dim);
    layer.CollectParams().Initialize();
    layer.weight().SetData(reference::ToNDArray(weight));
    const NDArray all[] = {Ids(ids, {4, 2}), Ids(std::vector<int64_t>(ids.begin(), ids.end()), {4, 2}),
                           Ids(std::vector<uint8_t>(ids.begin(), ids.end()), {4, 2}),
                           Ids(std::vector<float>(ids.begin(), ids.end()), {4, 2})};
    for (const NDArray& typed : all) {
      NDArray y;
      {
        const autograd::RecordScope record;
        y = layer(typed);
      }
      reference::ExpectClose(y, expected, 0);
      autograd::Backward({y}, {reference::ToNDArray(head)});
      reference::ExpectClose(layer.weight().grad(cpu(0)), gradient);
    }
  }
}

TEST(EmbeddingTest, ItsOwnInitialiserWins) {
  Embedding layer(2, 3, {.weight_init = std::make_shared<const Constant>(0.5)});
  layer.CollectParams().Initialize({cpu(0)}, std::make_shared<Zero>());
  EXPECT_THAT(layer.weight().data(cpu(0)).ToVector(), Each(0.5));
}

TEST(EmbeddingTest, NoIdsGiveAZeroGradient) {
  Embedding layer(2, 3);
  layer.CollectParams().Initialize();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = layer(NDArray({0, 4}));
  }
  EXPECT_EQ(y.shape(), (Shape{0, 4, 3}));
  autograd::Backward({y});
  EXPECT_THAT(layer.weight().grad(cpu(0)).ToVector(), ::testing::Each(0));
}

TEST(EmbeddingTest, AnIdOutsideIsAnErrorAtTheWaitThatNamesIt) {
  Embedding layer(10, 2);
  layer.CollectParams().Initialize();
  const auto why = [&](const NDArray& ids) { return MessageOf([&] { layer(ids).WaitToRead(); }); };
  EXPECT_THAT(why(Ids<int32_t>({0, 10}, {1, 2})), HasSubstr("id 10 at place 1 is no row of [0, 10)"));
  EXPECT_THAT(why(Ids<int64_t>({-1}, {1})), HasSubstr("id -1 at place 0"));
  EXPECT_THAT(why(Ids<uint8_t>({255}, {1})), HasSubstr("id 255 at place 0"));
  EXPECT_THAT(why(Ids<float>({1, 2.5}, {2})), HasSubstr("id 2.5 at place 1"));
  EXPECT_THAT(why(Ids<float>({NAN}, {1})), HasSubstr("id nan at place 0"));
  EXPECT_EQ(layer(Ids<int32_t>({9}, {1})).shape(), (Shape{1, 2}));  // and goes on working
}

TEST(EmbeddingTest, Refusals) {
  EXPECT_THAT(MessageOf([] { Embedding(0, 3); }), HasSubstr("the vocabulary is 0"));
  EXPECT_THAT(MessageOf([] { Embedding(3, 0); }), HasSubstr("the dimension is 0"));
  Sequential net;
  net.Add("words", Embedding(3, 2)).Add("mean", SequenceMean());
  net.CollectParams().Initialize();
  EXPECT_THAT(MessageOf([&] { net(NDArray(Shape{})); }),
              HasSubstr("words (Embedding) expects ids of shape [batch, ...]"));
  EXPECT_THAT(MessageOf([&] {
                net(NDArray({2, 0}));
              }),
              HasSubstr("mean (SequenceMean) expects input of shape [batch, length, ...] and got [2, 0, 2]"));
  EXPECT_THAT(MessageOf([&] { net(NDArray({1, 2}, cpu(0), DType::kFloat64)); }), HasSubstr("got float64"));
}

// The float64 mean of the rows of W that are not padding, by the bag.
Tensor MeanOfWords(const std::vector<int32_t>& ids, int64_t steps, const Tensor& weight, int64_t padding) {
  const int64_t bags = static_cast<int64_t>(ids.size()) / steps, dim = weight.shape[1];
  Tensor mean({bags, dim});
  for (int64_t bag = 0; bag < bags; ++bag) {
    const auto begin = ids.begin() + bag * steps;
    const auto words = static_cast<double>(steps - std::count(begin, begin + steps, padding));
    for (auto id = begin; id != begin + steps; ++id) {
      for (int64_t j = 0; *id != padding && j < dim; ++j)
        mean.at(bag * dim + j) += weight.at(*id * dim + j) / words;
    }
  }
  return mean;
}

// Padding before, between and behind words; a text of nothing else; a word that comes twice.
TEST(EmbeddingBagTest, MatchesTheReference) {
  const std::vector<int32_t> ids = {4, 0, 2, 2, 2, 4, 4, 1, 2, 2, 2, 2, 3, 3, 3, 0};
  for (const std::optional<int64_t> padding : {std::optional<int64_t>(), {2}, {0}, {5}}) {
    for (const int64_t dim : {int64_t{1}, int64_t{3}, int64_t{70}}) {
      EmbeddingBag layer(6, dim, {.padding = padding});
      layer.CollectParams().Initialize();
      Rng rng(static_cast<uint64_t>(dim));
      const Tensor weight = Random({6, dim}, &rng), head = Random({4, dim}, &rng);
      layer.weight().SetData(reference::ToNDArray(weight));
      const auto mean = [&](const std::vector<Tensor>& v) {
        return MeanOfWords(ids, 4, v[0], padding.value_or(-1));
      };
      const NDArray all[] = {Ids(ids, {4, 4}), Ids(std::vector<int64_t>(ids.begin(), ids.end()), {4, 4}),
                             Ids(std::vector<uint8_t>(ids.begin(), ids.end()), {4, 4}),
                             Ids(std::vector<float>(ids.begin(), ids.end()), {4, 4})};
      for (const NDArray& typed : all) {
        NDArray y;
        {
          const autograd::RecordScope record;
          y = layer(typed);
        }
        reference::ExpectClose(y, mean({weight}));
        autograd::Backward({y}, {reference::ToNDArray(head)});
        reference::ExpectClose(layer.weight().grad(cpu(0)), reference::Gradient(mean, {weight}, 0, head));
      }
    }
  }
}

TEST(EmbeddingBagTest, HowFarATextIsPaddedChangesNothing) {
  const std::vector<int32_t> text = {3, 1, 4};
  EmbeddingBag layer(5, 8, {.padding = 0});
  layer.CollectParams().Initialize();
  std::vector<std::vector<float>> means, gradients;
  for (const size_t length : {3, 4, 64}) {
    std::vector<int32_t> padded = text;
    padded.resize(length);
    NDArray y;
    {
      const autograd::RecordScope record;
      y = layer(Ids(padded, {1, static_cast<int64_t>(length)}));
    }
    autograd::Backward({y});
    means.push_back(y.ToVector());
    gradients.push_back(layer.weight().grad(cpu(0)).ToVector());
  }
  EXPECT_THAT(means, Each(means[0]));
  EXPECT_THAT(gradients, Each(gradients[0]));
}

TEST(EmbeddingBagTest, NoWordsGiveZeros) {
  EmbeddingBag layer(3, 2, {.padding = 1});
  layer.CollectParams().Initialize({cpu(0)}, std::make_shared<Constant>(7));
  for (const NDArray& none : {Ids<int32_t>({1, 1}, {1, 2}), NDArray({1, 0})}) {
    NDArray y;
    {
      const autograd::RecordScope record;
      y = layer(none);
    }
    EXPECT_THAT(y.ToVector(), ElementsAre(0, 0));
    autograd::Backward({y});
    EXPECT_THAT(layer.weight().grad(cpu(0)).ToVector(), Each(0));
  }
  EXPECT_EQ(layer(NDArray({0, 4})).shape(), (Shape{0, 2}));
}

TEST(EmbeddingTest, PaddingIsZerosAndLearnsNothing) {
  Embedding layer(3, 2, {.padding = 1});
  layer.CollectParams().Initialize({cpu(0)}, std::make_shared<Constant>(7));
  NDArray y;
  {
    const autograd::RecordScope record;
    y = layer(Ids<int32_t>({0, 1, 2, 1}, {2, 2}));
  }
  EXPECT_THAT(y.ToVector(), ElementsAre(7, 7, 0, 0, 7, 7, 0, 0));
  autograd::Backward({y});
  EXPECT_THAT(layer.weight().grad(cpu(0)).ToVector(), ElementsAre(1, 1, 0, 0, 1, 1));
}

TEST(EmbeddingBagTest, Refusals) {
  EXPECT_THAT(MessageOf([] { EmbeddingBag(0, 3); }), HasSubstr("EmbeddingBag: the vocabulary is 0"));
  for (const int64_t padding : {-1, 3}) {
    EXPECT_THAT(MessageOf([=] { EmbeddingBag(3, 2, {.padding = padding}); }),
                HasSubstr(StrCat("padding is ", padding, "; it must be an id, from 0 to 2")));
    EXPECT_THAT(MessageOf([=] { Embedding(3, 2, {.padding = padding}); }),
                HasSubstr(StrCat("padding is ", padding)));
    EXPECT_THAT(MessageOf([=] {
                  ops::Embedding(Ids<int32_t>({0}, {1}), NDArray({3, 2}), padding);
                }),
                HasSubstr(StrCat("padding ", padding, " is no row of [0, 3)")));
  }
  Sequential net;
  net.Add("words", EmbeddingBag(3, 2));
  net.CollectParams().Initialize();
  EXPECT_THAT(MessageOf([&] { net(NDArray({4})); }),
              HasSubstr("words (EmbeddingBag) expects ids of shape [batch, length] and got [4]"));
  EXPECT_THAT(MessageOf([&] {
                net(Ids<int32_t>({0, 3}, {1, 2})).WaitToRead();
              }),
              HasSubstr("id 3 at place 1 is no row of [0, 3)"));
  EXPECT_THAT(MessageOf([] {
                ops::EmbeddingBag(Ids<int32_t>({0}, {1}), NDArray({3, 2}));
              }),
              HasSubstr("needs ids [n, steps] and got [1]"));
}

TEST(SequenceMeanTest, MatchesTheReference) {
  for (const Shape& shape : {Shape{3, 4}, Shape{2, 5, 3}, Shape{2, 1, 2, 7}, Shape{0, 3, 2}}) {
    SequenceMean layer;
    Check(
        layer, shape,
        [&](const auto& v) {
          Tensor y{shape.WithoutAxis(1)};
          const int64_t columns = shape[0] == 0 ? 1 : y.shape.size() / shape[0], steps = shape[1];
          for (int64_t i = 0; i < shape.size(); ++i)
            y.at(i / (steps * columns) * columns + i % columns) += v[0].at(i) / static_cast<double>(steps);
          return y;
        },
        12);
  }
}

// One matrix as the embedding and, transposed, as the last layer (Press, Wolf 2017).
TEST(SharedParameterTest, GradientsOfAllUsesAddUp) {
  Embedding words(5, 3);
  Dense decoder(5, {.use_bias = false});
  decoder.ShareParameter("weight", words.CollectParams().Find("weight"));
  EXPECT_EQ(&decoder.weight(), &words.weight());
  Sequential net;
  net.Add("words", std::move(words)).Add("decoder", std::move(decoder));
  const ParameterDict parameters = net.CollectParams();
  EXPECT_THAT(parameters.names(), ElementsAre("words.weight"));  // once, as its first layer names it
  parameters.Initialize();
  Rng rng(8);
  const Tensor weight = Random({5, 3}, &rng), head = Random({2, 5}, &rng);
  parameters.at(0)->SetData(reference::ToNDArray(weight));
  const auto function = [](const std::vector<Tensor>& v) {
    Tensor rows({2, 3});
    for (int64_t i = 0; i < 3; ++i) {
      rows.at(i) = v[0].at(4 * 3 + i);
      rows.at(3 + i) = v[0].at(1 * 3 + i);
    }
    return reference::Dense(rows, v[0], nullptr);
  };
  for (const auto req : {autograd::GradReq::kWrite, autograd::GradReq::kAdd}) {
    parameters.SetGradReq(req);
    Tensor expected = reference::Gradient(function, {weight}, 0, head);
    for (int pass = 1; pass <= 2; ++pass) {
      NDArray y;
      {
        const autograd::RecordScope record;
        y = net(Ids<int32_t>({4, 1}, {2}));
      }
      reference::ExpectClose(y, function({weight}));
      autograd::Backward({y}, {reference::ToNDArray(head)});
      Tensor sum = expected;
      for (double& value : sum.values) value *= req == autograd::GradReq::kAdd ? pass : 1;
      reference::ExpectClose(parameters.at(0)->grad(cpu(0)), sum);
    }
  }
}

TEST(SharedParameterTest, WholeLayersShareAndDeferredShapesFollow) {
  Dense first(4), second(4);
  second.ShareParameters(first);
  Sequential net;
  net.Add("first", std::move(first)).Add("second", std::move(second));
  EXPECT_THAT(net.CollectParams().names(), ElementsAre("first.weight", "first.bias"));
  net.CollectParams().Initialize();
  EXPECT_EQ(net(NDArray({2, 4})).shape(), (Shape{2, 4}));
}

TEST(SharedParameterTest, ADeferredOneTakesTheExtentsThatTheOtherLayerKnows) {
  Dense first(4), second(4, {.in_units = 7});
  first.CollectParams().Initialize();
  second.ShareParameters(first);
  EXPECT_EQ(first.weight().shape(), (Shape{4, 7}));
  EXPECT_TRUE(first.weight().initialized());
  EXPECT_EQ(second(NDArray({2, 7})).shape(), (Shape{2, 4}));
  EXPECT_THAT(MessageOf([&] { second(NDArray({2, 5})); }), HasSubstr("7"));
}

TEST(SharedParameterTest, Refusals) {
  Dense dense(4, {.in_units = 3}), other(5, {.in_units = 3});
  const auto weight = other.CollectParams().Find("weight");
  EXPECT_THAT(MessageOf([&] { dense.ShareParameter("weight", weight); }),
              HasSubstr("its parameter 'weight' is float32 [4, 3] and cannot be 'weight' of float32 [5, 3]"));
  EXPECT_THAT(MessageOf([&] { dense.ShareParameter("weight", nullptr); }),
              HasSubstr("no parameter to share"));
  EXPECT_THAT(ErrorOf(ErrorCode::kNotFound, [&] { dense.ShareParameter("gamma", weight); }),
              HasSubstr("Dense has no parameter 'gamma'; it has weight, bias"));
  EXPECT_THAT(MessageOf([&] { dense.ShareParameters(Dense(4, {.use_bias = false})); }),
              HasSubstr("cannot share"));
  dense.CollectParams().Initialize();
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { dense.ShareParameter("weight", weight); }),
              HasSubstr("initialised already"));
}

}  // namespace
}  // namespace sluice::nn
