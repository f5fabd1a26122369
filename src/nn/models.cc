// The ready-made networks of sluice/models.h, and their list by name.
//
// Names of layers are part of the checkpoints' format, so they do not change. A network is built without
// parameters' values; Initialize gives them. The functions may be called from any thread.
#include "sluice/models.h"

#include "autograd/ops.h"
#include "nn/drop.h"
#include "nn/require.h"

namespace sluice::nn {
namespace {

struct Model {
  std::string_view name;
  Sequential (*create)();
};
constexpr Model kModels[] = {{"mlp", Mlp},
                             {"lenet", Lenet},
                             {"lenet_avg", LenetAvg},
                             {"gluon_lenet", GluonLenet},
                             {"resnet20", [] { return Resnet20(); }},
                             {"text_mean", [] { return TextMean(); }},
                             {"text_cnn", [] { return TextCnn(); }},
                             {"text_lstm", [] { return TextLstm(); }},
                             {"text_gru", [] { return TextGru(); }}};

template <typename Pool>
Sequential LenetWith() {
  Sequential net;
  net.Add("conv1", Conv2D(20, 5)).Add("tanh1", Activation::Tanh()).Add("pool1", Pool(2));
  net.Add("conv2", Conv2D(50, 5)).Add("tanh2", Activation::Tanh()).Add("pool2", Pool(2));
  net.Add("flatten", Flatten()).Add("fc1", Dense(500)).Add("tanh3", Activation::Tanh()).Add("fc2", Dense(10));
  return net;
}

// Two 3x3 convolutions beside a shortcut, which is a 1x1 convolution when the block changes the shape.
Residual ResidualBlock(int64_t channels, int64_t stride, bool changes_shape) {
  Sequential body;
  body.Add("conv1", Conv2D(channels, 3, {.stride = stride, .padding = 1, .use_bias = false}));
  body.Add("bn1", BatchNorm()).Add("relu1", Activation::Relu());
  body.Add("conv2", Conv2D(channels, 3, {.padding = 1, .use_bias = false})).Add("bn2", BatchNorm());
  if (!changes_shape) return Residual(std::move(body));
  Sequential shortcut;
  shortcut.Add("conv", Conv2D(channels, 1, {.stride = stride, .use_bias = false})).Add("bn", BatchNorm());
  return {std::move(body), std::move(shortcut)};
}

EmbeddingOptions PaddedEmbedding(bool sparse_grad) {
  return {.padding = 0, .sparse_grad = sparse_grad};
}

// Maps ids of words [batch, length], padded with 0, to the recurrent layer's hidden state after each
// text's last word, [batch, hidden].
class TextReader final : public Layer {
 public:
  template <typename Recurrent>
  TextReader(Embedding embedding, Recurrent recurrent) {
    children_.Add(*this, "embedding", std::make_unique<Embedding>(std::move(embedding)));
    auto reads = std::make_unique<Recurrent>(std::move(recurrent));
    recurrent_ = reads.get();
    children_.Add(*this, "recurrent", std::move(reads));
  }
  NDArray Forward(const NDArray& ids) override {
    if (ids.shape().ndim() != 2 || ids.shape()[1] == 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat(Describe(), " expects ids of shape [batch, length] and got ", ids.shape()));
    }
    const NDArray lengths = ops::SequenceLengths(ids);
    const NDArray state = recurrent_->Forward(children_[0](ids), {}, lengths).hidden;
    return ops::Reshape(state, {state.shape()[1], state.shape()[2]});
  }
  ParameterDict CollectParams() const override { return children_.CollectParams(); }
  std::string_view kind() const override { return "TextReader"; }
  void AddPrefix(const std::string& prefix) override {
    Layer::AddPrefix(prefix);
    children_.AddPrefix(prefix);
  }

 private:
  Children children_;
  RecurrentLayer* recurrent_;  // owned by children_
};

// A text classifier on a recurrent layer. Its input weights are drawn from a wide range because
// embeddings begin small: weights drawn for inputs of unit size would leave the gates in their nearly
// linear range, and learning would take several times as many steps.
template <typename Recurrent>
Sequential TextWith(int64_t vocabulary, int64_t classes, int64_t dim, int64_t hidden, bool sparse_grad,
                    std::shared_ptr<const Initializer> bias = nullptr) {
  Sequential net;
  net.Add("reader", TextReader(Embedding(vocabulary, dim, {.sparse_grad = sparse_grad}),
                               Recurrent(hidden, {.input_size = dim,
                                                  .i2h_weight_init = std::make_shared<const Uniform>(1),
                                                  .i2h_bias_init = std::move(bias)})));
  net.Add("fc", Dense(classes, {.in_units = hidden}));
  return net;
}

}  // namespace

Sequential Mlp() {
  Sequential net;
  net.Add("flatten", Flatten());
  net.Add("fc1", Dense(128)).Add("relu1", Activation::Relu());
  net.Add("fc2", Dense(64)).Add("relu2", Activation::Relu()).Add("fc3", Dense(10));
  return net;
}

Sequential Lenet() {
  return LenetWith<MaxPool2D>();
}

Sequential LenetAvg() {
  return LenetWith<AvgPool2D>();
}

Sequential GluonLenet() {
  Sequential net;
  net.Add("conv1", Conv2D(6, 5)).Add("relu1", Activation::Relu()).Add("pool1", MaxPool2D(2));
  net.Add("conv2", Conv2D(16, 3)).Add("relu2", Activation::Relu()).Add("pool2", MaxPool2D(2));
  net.Add("flatten", Flatten()).Add("fc1", Dense(120)).Add("relu3", Activation::Relu());
  net.Add("fc2", Dense(84)).Add("relu4", Activation::Relu()).Add("fc3", Dense(10));
  return net;
}

Sequential Resnet20(int64_t classes) {
  Sequential net;
  net.Add("conv", Conv2D(16, 3, {.padding = 1, .use_bias = false})).Add("bn", BatchNorm());
  net.Add("relu", Activation::Relu());
  for (int64_t stage = 1; stage <= 3; ++stage) {
    Sequential blocks;
    for (int64_t block = 1; block <= 3; ++block) {
      const bool changes = stage > 1 && block == 1;
      blocks.Add(StrCat("block", block), ResidualBlock(int64_t{8} << stage, changes ? 2 : 1, changes));
      blocks.Add(StrCat("relu", block), Activation::Relu());
    }
    net.Add(StrCat("stage", stage), std::move(blocks));
  }
  net.Add("pool", GlobalAvgPool2D()).Add("fc", Dense(classes));
  return net;
}

Sequential TextMean(int64_t vocabulary, int64_t classes, int64_t dim, bool sparse_grad) {
  Sequential net;
  net.Add("embedding", EmbeddingBag(vocabulary, dim, PaddedEmbedding(sparse_grad))).Add("fc", Dense(classes));
  return net;
}

Sequential TextCnn(int64_t vocabulary, int64_t classes, int64_t dim, int64_t filters, bool sparse_grad) {
  Concurrent windows;
  for (const int64_t words : {3, 4, 5}) {
    Sequential window;
    window.Add("conv", Conv2D(filters, {words, dim}, {.padding = {words / 2, 0}}));
    window.Add("relu", Activation::Relu()).Add("pool", GlobalMaxPool2D());
    windows.Add(StrCat("window", words), std::move(window));
  }
  Sequential net;
  net.Add("embedding", Embedding(vocabulary, dim, PaddedEmbedding(sparse_grad)));
  // The text becomes an image of one channel, with one word in each row.
  net.Add("image", Lambda([](const NDArray& x) {
            return ops::Reshape(x, {x.shape()[0], 1, x.shape()[1], x.shape()[2]});
          }));
  net.Add("windows", std::move(windows)).Add("drop", Dropout(0.5)).Add("fc", Dense(classes));
  return net;
}

Sequential TextLstm(int64_t vocabulary, int64_t classes, int64_t dim, int64_t hidden, bool sparse_grad) {
  return TextWith<Lstm>(vocabulary, classes, dim, hidden, sparse_grad, std::make_shared<const LstmBias>());
}

Sequential TextGru(int64_t vocabulary, int64_t classes, int64_t dim, int64_t hidden, bool sparse_grad) {
  return TextWith<Gru>(vocabulary, classes, dim, hidden, sparse_grad);
}

Sequential LanguageModel(const LanguageModelOptions& options) {
  RequireAtLeast("LanguageModel: layers", options.layers, 1);
  RequireRate("LanguageModel: the dropout", options.dropout);
  if (options.tied && options.embedding != options.hidden) {
    ThrowInvalid(StrCat("LanguageModel: a tied decoder needs embedding and hidden to be equal; they are ",
                        options.embedding, " and ", options.hidden));
  }
  if (options.tied && options.sparse_grad)
    ThrowInvalid("LanguageModel: the weight of a tied decoder has a dense gradient; set sparse_grad or tied");
  Sequential net;
  const auto add_dropout = [&](const std::string& name) {
    if (options.dropout > 0) net.Add(name, Dropout(options.dropout));
  };
  net.Add("embed", Embedding(options.vocabulary, options.embedding, {.sparse_grad = options.sparse_grad}));
  add_dropout("drop");
  const RecurrentOptions recurrent{.carries_state = options.carries_state};
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    const std::string name = StrCat("layer", layer);
    options.gru ? net.Add(name, Gru(options.hidden, recurrent))
                : net.Add(name, Lstm(options.hidden, recurrent));
    add_dropout(StrCat("drop", layer));
  }
  Dense decode(options.vocabulary, {.in_units = options.hidden, .flatten = false});
  if (options.tied) decode.ShareParameter("weight", net.CollectParams().Find("embed.weight"));
  net.Add("decode", std::move(decode));
  return net;
}

std::vector<std::string_view> ModelNames() {
  std::vector<std::string_view> names;
  for (const Model& model : kModels) names.push_back(model.name);
  return names;
}

Sequential CreateModel(std::string_view name) {
  for (const Model& model : kModels) {
    if (model.name == name) return model.create();
  }
  throw Error(ErrorCode::kNotFound,
              StrCat("no network is called '", name, "'; there are ", StrJoin(ModelNames())));
}

}  // namespace sluice::nn
