// The training steps that train_bench measures: forward, backward and SGD with momentum on one batch of
// random data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "sluice/data_loader.h"
#include "sluice/kvstore.h"
#include "sluice/loss.h"
#include "sluice/models.h"
#include "sluice/trainer.h"

namespace sluice::bench {

struct TrainLoadOptions {
  // Any of nn::ModelNames(), or one recurrent layer of 200 units over 35 steps: lstm_200, gru_200, rnn_200.
  std::string network = "lenet";
  int64_t batch_size = 64;
  DType dtype = DType::kFloat32;  // of the weights
  std::string kv_store;           // a type of KVStore::Create; empty: updates without one
  bool loader = false;          // batches of a DataLoader over synthetic images in place of one random batch
  bool layer_by_layer = false;  // each layer of the network called by itself
  // With a store: gradients leave during backward, by priority. Otherwise they leave when backward has ended,
  // in the order of the layers, and the next forward begins when all weights have come.
  bool overlap = true;
  GradientCompression compression = {};  // of a distributed store's pushes
};

class TrainLoad {
 public:
  explicit TrainLoad(const TrainLoadOptions& options);
  ~TrainLoad();
  // Issues one, and waits for the one before.
  void Step();
  // Until all that was issued is done; with a distributed store, on all workers.
  void WarmUp();
  void Run(int steps);  // so many, settled
  int num_workers() const { return store_ == nullptr ? 1 : store_->num_workers(); }
  int rank() const { return store_ == nullptr ? 0 : store_->rank(); }
  KVStore* store() const { return store_.get(); }  // null without one
  const nn::ParameterDict& parameters() const { return parameters_; }
  int64_t CountParameters() const;              // elements that have a gradient
  std::vector<std::string> PushedKeys() const;  // names of parameters that have a gradient
  // How long each step waited for its batch.
  const std::vector<Duration>& loader_waits() const { return loader_waits_; }
  void ForgetWaits() { loader_waits_.clear(); }

 private:
  class Sgd;
  void MakeLoader();
  void TakeBatch();
  void Backward();
  void ExchangeAtOnce();

  const TrainLoadOptions options_;
  nn::Sequential net_;
  const nn::SoftmaxCrossEntropyLoss loss_;
  NDArray inputs_, labels_;
  nn::ParameterDict parameters_;
  std::shared_ptr<KVStore> store_;
  std::unique_ptr<Trainer> trainer_;  // with a store
  std::unique_ptr<Sgd> sgd_;          // without
  std::unique_ptr<DataLoader> loader_;
  std::vector<Duration> loader_waits_;
  NDArray losses_;
};

}  // namespace sluice::bench
