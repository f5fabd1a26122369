#include "sluice/models.h"

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::nn {
namespace {

struct Model {
  std::string_view name;
  Sequential (*create)();
};
constexpr Model kModels[] = {
    {"mlp", Mlp}, {"lenet", Lenet}, {"lenet_avg", LenetAvg}, {"gluon_lenet", GluonLenet}};

template <typename Pool>
Sequential LenetWith() {
  Sequential net;
  net.Add("conv1", Conv2D(20, 5)).Add("tanh1", Activation::Tanh()).Add("pool1", Pool(2));
  net.Add("conv2", Conv2D(50, 5)).Add("tanh2", Activation::Tanh()).Add("pool2", Pool(2));
  net.Add("flatten", Flatten()).Add("fc1", Dense(500)).Add("tanh3", Activation::Tanh()).Add("fc2", Dense(10));
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
