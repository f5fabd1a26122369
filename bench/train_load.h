// The training steps that train_bench measures: forward, backward and SGD with momentum, on one batch of
// random data or on batches of a loader.
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
  DType dtype = DType::kFloat32;  // type of the weights
  std::string kv_store;           // a type of KVStore::Create; empty: updates without a store, on a CPU
  Context context = cpu(0);       // where everything lies
  bool loader = false;            // takes batches from a DataLoader over synthetic images
  bool layer_by_layer = false;    // calls each layer by itself, so that neighbours are not fused
  // With a store. True: each gradient is pushed during backward, by priority. False: all are pushed after
  // backward, in the order of the layers, and the next forward begins when all weights have been received.
  bool overlap = true;
  GradientCompression compression = {};  // how pushes to a distributed store encode
};

class TrainLoad {
 public:
  explicit TrainLoad(const TrainLoadOptions& options);
  ~TrainLoad();
  // Issues one step, and waits for the one before it.
  void Step();
  // Waits until everything issued is done; with a store of several workers, until that holds for all of them.
  void Drain();
  void Run(int steps);  // issues `steps` steps and waits until they are done
  int num_workers() const { return store_ == nullptr ? 1 : store_->num_workers(); }
  int rank() const { return store_ == nullptr ? 0 : store_->rank(); }
  KVStore* store() const { return store_.get(); }  // null without a store
  const nn::ParameterDict& parameters() const { return parameters_; }
  int64_t CountParameters() const;              // elements that have a gradient
  std::vector<std::string> PushedKeys() const;  // names of parameters that have a gradient
  // Returns by step how long it waited for its batch.
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
  std::unique_ptr<Trainer> trainer_;  // null without a store
  std::unique_ptr<Sgd> sgd_;          // null with a store
  std::unique_ptr<DataLoader> loader_;
  std::vector<Duration> loader_waits_;
  NDArray losses_;
};

}  // namespace sluice::bench
