// The DataLoader and its threads. A thread claims the next batch number, makes the batch without the lock,
// and puts it into the ring `made`; Next, on the caller's thread, takes the batches out in order.
//
// Thread safety: all data shared with the threads are in State, reachable only through its lock.
// Invariants of State: batches are numbered in the order of their positions, from 0 at the last Seek;
// given <= claimed <= given + ahead_; `made`, a ring of ahead_ places, holds only batches numbered in
// [given, claimed) that were claimed in this generation.
#include "sluice/data_loader.h"

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/executor.h"
#include "base/guarded.h"
#include "base/strings.h"
#include "base/threads.h"
#include "data/buckets.h"
#include "data/required.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using Order = std::shared_ptr<const std::vector<uint64_t>>;
using Made = std::variant<Batch, std::exception_ptr>;

// A batch that a thread has claimed and is to make.
struct ClaimedBatch {
  uint64_t generation = 0;
  uint64_t number = 0;
  Position position;
  Share share;
};

struct State {
  uint64_t generation = 0;  // grows at every Seek; batches of older generations are dropped
  Position start;           // the position of batch number 0
  Share share;
  uint64_t claimed = 0;                   // batches that threads have claimed
  uint64_t given = 0;                     // batches that Next has returned
  std::vector<std::optional<Made>> made;  // batch n is at n modulo the size
  std::vector<Batch> spare;               // returned by Reuse; new batches take their memory
  // By epoch and, where samples have buckets, the number of workers; at most three epochs.
  std::map<std::pair<int64_t, int64_t>, Order> orders;
  bool stopping = false;
};

const DataLoaderOptions& Checked(const DataLoaderOptions& options) {
  const auto require = [](const char* name, int64_t value, int64_t least) {
    if (value < least) {
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat("DataLoader: ", name, " is ", value, "; expected at least ", least));
    }
  };
  require("num_threads", options.num_threads, 1);
  require("prefetch", options.prefetch, 0);
  require("timeout (ms)", options.timeout.count(), 1);
  if (!options.class_weights.empty() && !options.shuffle) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "DataLoader: class_weights draw the samples of an epoch, but shuffle is false; leave one out");
  }
  return options;
}

// Returns the labels of all samples when there are class weights, else nothing. Throws
// Error(kInvalidArgument) when the weights do not fit the dataset's classes.
std::vector<int32_t> LabelsFor(const Dataset& dataset, const DataLoaderOptions& options) {
  std::vector<int32_t> labels;
  if (options.class_weights.empty()) return labels;
  if (dataset.label_shape()) {
    throw Error(ErrorCode::kInvalidArgument, StrCat("DataLoader: ", options.class_weights.size(),
                                                    " class_weights, but the labels are arrays, ",
                                                    *dataset.label_shape(), ", and no classes"));
  }
  if (const auto weights = static_cast<int64_t>(options.class_weights.size());
      weights != dataset.num_classes()) {
    throw Error(ErrorCode::kInvalidArgument, StrCat("DataLoader: ", weights, " class_weights for ",
                                                    dataset.num_classes(), " classes; give one for each"));
  }
  for (int64_t i = 0; i < dataset.size(); ++i) labels.push_back(dataset.Label(i));
  return labels;
}

}  // namespace

class DataLoader::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options)
      : dataset_(Required(dataset, "DataLoader")),
        options_(Checked(options)),
        sampler_{dataset_->size(), options.batch_size, options.seed, options.shuffle, options.last_batch},
        labels_(LabelsFor(*dataset_, options)),
        buckets_(BucketsOf(*dataset_)) {
    Seek(Position{}, options.share);
    // Throws for class weights that cannot be drawn by, and for buckets with kRollover.
    if (!labels_.empty() || !buckets_.empty()) OrderOf(0, options.share.num_workers);
    try {
      StartThreads();
    } catch (...) {
      EndThreads();
      throw;
    }
  }

  ~Impl() { EndThreads(); }

  std::optional<Batch> Next();
  void Reuse(Batch batch);
  void Seek(const Position& position, std::optional<Share> share);

  Position position() const {
    return state_.With([this](const State& state) { return PositionOf(state, state.given); });
  }
  int64_t steps_per_epoch() const {
    return state_.With([this](const State& state) {
      return StepsPerEpoch(sampler_, state.share.num_workers, PositionOf(state, state.given).epoch);
    });
  }
  const Dataset& dataset() const { return *dataset_; }

 private:
  Position PositionOf(const State& state, uint64_t number) const {
    return PositionAfter(sampler_, state.start, number, state.share.num_workers);
  }
  static std::optional<Made>& PlaceOf(State& state, uint64_t number) {
    return state.made[number % state.made.size()];
  }
  bool IsPastTheEnd(const Position& position) const {
    return options_.num_epochs >= 0 && position.epoch >= options_.num_epochs;
  }
  bool CanClaim(const State& state) const {
    return state.claimed < state.given + static_cast<uint64_t>(ahead_) &&
           !IsPastTheEnd(PositionOf(state, state.claimed));
  }

  void StartThreads() {
    for (int i = 0; i < options_.num_threads; ++i) {
      threads_.push_back(StartThread(StrCat("thread ", i, " of a DataLoader (num_threads)"), [this, i] {
        SetThreadName(StrCat("loader ", i));
        MakeBatches();
      }));
    }
  }
  void EndThreads() {
    state_.Notify([](State& state) { state.stopping = true; });
    for (auto& thread : threads_) thread.join();
  }
  void MakeBatches();
  std::optional<ClaimedBatch> Claim();
  Batch SpareBatch();
  Made Make(const ClaimedBatch& ticket);
  void AddSamples(const ClaimedBatch& ticket, int64_t epoch, const Interval& places, Batch* batch);
  Order OrderOf(int64_t epoch, int64_t num_workers);
  int64_t StepsOf(const ClaimedBatch& ticket, const Interval& all);

  const std::shared_ptr<const Dataset> dataset_;
  const DataLoaderOptions options_;
  const int ahead_ = options_.prefetch > 0 ? options_.prefetch : std::max(4, 2 * options_.num_threads);
  const SamplerConfig sampler_;
  const std::vector<int32_t> labels_;   // empty without class_weights
  const std::vector<int64_t> buckets_;  // by sample; empty: there are none
  const std::optional<Shape> label_shape_ = dataset_->label_shape();
  Guarded<State> state_;
  std::vector<std::thread> threads_;
};

std::optional<Batch> DataLoader::Impl::Next() {
  enum class Outcome { kMade, kEnd, kLate };
  std::optional<Batch> batch;
  std::exception_ptr error;
  Position position;
  const auto ready = [this](State& state) {
    return PlaceOf(state, state.given).has_value() || IsPastTheEnd(PositionOf(state, state.given));
  };
  const Outcome outcome = state_.Await(options_.timeout, ready, [&](State& state, bool was_ready) {
    position = PositionOf(state, state.given);
    if (!was_ready) return Outcome::kLate;
    std::optional<Made>& made = PlaceOf(state, state.given);
    if (!made) return Outcome::kEnd;
    if (auto* thrown = std::get_if<std::exception_ptr>(&*made)) {
      error = *thrown;
      return Outcome::kMade;
    }
    batch = std::move(std::get<Batch>(*made));
    made.reset();
    ++state.given;
    return Outcome::kMade;
  });
  if (outcome == Outcome::kLate) {
    throw Error(ErrorCode::kDeadlineExceeded,
                StrCat("DataLoader: the batch of epoch ", position.epoch, ", step ", position.step,
                       " was not ready after ", options_.timeout.count(),
                       " ms; the dataset is slow or stuck: raise `timeout` or `num_threads`"));
  }
  if (error) std::rethrow_exception(error);
  if (batch) state_.Notify([](State&) {});  // wakes the threads: there is room for one more
  return batch;
}

void DataLoader::Impl::Seek(const Position& position, std::optional<Share> share) {
  const Share to = share ? *share : state_.With([](State& state) { return state.share; });
  if (to.rank < 0 || to.rank >= to.num_workers) {
    throw Error(ErrorCode::kInvalidArgument, StrCat("DataLoader: rank ", to.rank, " of ", to.num_workers,
                                                    " workers; expected 0 to num_workers - 1"));
  }
  const int64_t steps = StepsPerEpoch(sampler_, to.num_workers, std::max<int64_t>(position.epoch, 0));
  if (position.epoch < 0 || position.step < 0 || position.step >= steps) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("DataLoader: no epoch ", position.epoch, ", step ", position.step,
                       "; an epoch there has steps 0 to ", steps - 1, " with ", to.num_workers, " workers"));
  }
  state_.Notify([&](State& state) {
    ++state.generation;
    state.start = position;
    state.share = to;
    state.claimed = state.given = 0;
    state.made.assign(static_cast<size_t>(ahead_), std::nullopt);
  });
}

void DataLoader::Impl::MakeBatches() {
  while (const std::optional<ClaimedBatch> ticket = Claim()) {
    Made made = Make(*ticket);
    state_.Notify([&](State& state) {
      if (ticket->generation == state.generation) PlaceOf(state, ticket->number) = std::move(made);
    });
  }
}

// Waits for a batch to make and claims it. Returns nothing when the loader stops.
std::optional<ClaimedBatch> DataLoader::Impl::Claim() {
  std::optional<ClaimedBatch> ticket;
  bool stopping = false;
  while (!ticket && !stopping) {
    const auto ready = [this](State& state) { return state.stopping || CanClaim(state); };
    state_.Await(1min, ready, [&](State& state, bool was_ready) {
      stopping = state.stopping;
      if (stopping || !was_ready) return;
      ticket = ClaimedBatch{state.generation, state.claimed, PositionOf(state, state.claimed), state.share};
      ++state.claimed;
    });
  }
  return ticket;
}

Order DataLoader::Impl::OrderOf(int64_t epoch, int64_t num_workers) {
  const std::pair key(epoch, buckets_.empty() ? 1 : num_workers);
  if (Order known = state_.With([&](State& state) {
        const auto found = state.orders.find(key);
        return found == state.orders.end() ? nullptr : found->second;
      })) {
    return known;
  }
  // Two threads may both make the order here; the results are equal.
  std::vector<uint64_t> samples = labels_.empty()
                                      ? EpochOrder(sampler_, epoch)
                                      : WeightedEpochOrder(sampler_, epoch, labels_, options_.class_weights);
  if (!buckets_.empty()) samples = BucketedOrder(sampler_, epoch, samples, buckets_, num_workers);
  auto order = std::make_shared<const std::vector<uint64_t>>(std::move(samples));
  state_.With([&](State& state) {
    std::erase_if(state.orders, [&](const auto& entry) {
      const auto& [other, workers] = entry.first;
      return other < epoch - 1 || other > epoch + 1 || workers != key.second;
    });
    state.orders.emplace(key, order);
  });
  return order;
}

void DataLoader::Impl::Reuse(Batch batch) {
  state_.With([&](State& state) {
    if (state.spare.size() < static_cast<size_t>(ahead_)) state.spare.push_back(std::move(batch));
  });
}

// Returns an empty batch, with the memory of one that Reuse returned if there is one.
Batch DataLoader::Impl::SpareBatch() {
  Batch batch;
  state_.With([&](State& state) {
    if (state.spare.empty()) return;
    batch = std::move(state.spare.back());
    state.spare.pop_back();
  });
  batch.labels.clear();
  batch.label_shape = {};
  batch.label_values.clear();
  batch.indices.clear();
  return batch;
}

Made DataLoader::Impl::Make(const ClaimedBatch& ticket) {
  try {
    const Interval interval = ShareOfStep(sampler_, ticket.position, ticket.share);
    const Interval all = GlobalStep(sampler_, ticket.position, ticket.share.num_workers);
    Batch batch = SpareBatch();
    batch.position = ticket.position;
    const Shape& sample = dataset_->sample_shape();
    const int64_t steps = StepsOf(ticket, all);
    batch.shape = CutTo(sample, sample, steps).WithAxis(0, interval.size());
    batch.samples.assign(static_cast<size_t>(batch.shape.size()), 0);
    if (label_shape_) {
      batch.label_shape = CutTo(*label_shape_, sample, steps).WithAxis(0, interval.size());
      batch.label_values.assign(static_cast<size_t>(batch.label_shape.size()), 0);
    } else {
      batch.labels.reserve(static_cast<size_t>(interval.size()));
    }
    batch.indices.reserve(static_cast<size_t>(interval.size()));
    batch.global_size = all.size();
    batch.first = interval.begin - all.begin;
    const int64_t epoch = ticket.position.epoch;
    AddSamples(
        ticket, epoch - 1,
        {interval.begin + sampler_.num_samples, std::min<int64_t>(interval.end, 0) + sampler_.num_samples},
        &batch);
    AddSamples(ticket, epoch, {std::max<int64_t>(interval.begin, 0), interval.end}, &batch);
    return batch;
  } catch (...) {
    return std::current_exception();
  }
}

// Returns the steps to which a batch is cut: those of the largest bucket of all workers' samples.
int64_t DataLoader::Impl::StepsOf(const ClaimedBatch& ticket, const Interval& all) {
  if (buckets_.empty()) return 0;
  const Order order = OrderOf(ticket.position.epoch, ticket.share.num_workers);
  int64_t steps = 1;
  for (int64_t at = all.begin; at < all.end; ++at)
    steps = std::max(steps, buckets_[(*order)[static_cast<size_t>(at)]]);
  return steps;
}

// Appends the samples at `places` in an epoch's order to `batch`; an empty interval adds none.
void DataLoader::Impl::AddSamples(const ClaimedBatch& ticket, int64_t epoch, const Interval& places,
                                  Batch* batch) {
  if (places.size() <= 0) return;
  const Order order = OrderOf(epoch, ticket.share.num_workers);
  std::vector<float> whole;  // a sample or label that is cut
  for (int64_t at = places.begin; at < places.end; ++at) {
    if (state_.With([](const State& state) { return state.stopping; })) return;
    const auto index = static_cast<int64_t>((*order)[static_cast<size_t>(at)]);
    const size_t place = batch->indices.size();
    const auto read = [&](const Shape& shape, const Shape& all, std::vector<float>& values, auto&& get) {
      const auto size = static_cast<size_t>(all.size() / all[0]);  // numbers of a sample in the batch
      const auto to = std::span(values).subspan(place * size, size);
      if (static_cast<size_t>(shape.size()) == size) return get(to);
      whole.resize(static_cast<size_t>(shape.size()));
      get(std::span(whole));
      std::copy_n(whole.begin(), size, to.begin());
    };
    int32_t label = 0;
    read(dataset_->sample_shape(), batch->shape, batch->samples,
         [&](std::span<float> to) { label = dataset_->GetInEpoch(epoch, index, to); });
    if (label_shape_) {
      read(*label_shape_, batch->label_shape, batch->label_values,
           [&](std::span<float> to) { dataset_->GetLabel(index, to); });
    } else {
      batch->labels.push_back(label);
    }
    batch->indices.push_back(static_cast<uint64_t>(index));
  }
}

std::vector<double> BalancedClassWeights(const Dataset& dataset) {
  const int64_t classes = std::max<int64_t>(dataset.num_classes(), 0);
  std::vector<double> weights(static_cast<size_t>(classes));
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const int32_t label = dataset.Label(i);
    if (label < 0 || label >= classes) {
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat("BalancedClassWeights: sample ", i, " is of class ", label, ", but the dataset has ",
                         classes, " classes", " (num_classes)"));
    }
    weights[static_cast<size_t>(label)] += 1;
  }
  for (double& weight : weights) weight = weight > 0 ? 1 / weight : 0;
  return weights;
}

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(dataset), options)) {}
DataLoader::~DataLoader() = default;
std::optional<Batch> DataLoader::Next() {
  return impl_->Next();
}
void DataLoader::Reuse(Batch batch) {
  impl_->Reuse(std::move(batch));
}
void DataLoader::Seek(const Position& position, std::optional<Share> share) {
  impl_->Seek(position, share);
}
Position DataLoader::position() const {
  return impl_->position();
}
int64_t DataLoader::steps_per_epoch() const {
  return impl_->steps_per_epoch();
}
const Dataset& DataLoader::dataset() const {
  return impl_->dataset();
}

}  // namespace sluice
