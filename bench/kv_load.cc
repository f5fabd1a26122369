#include "kv_load.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::bench {
namespace {

constexpr std::pair<Mode, const char*> kModes[] = {{Mode::kPush, "push"},
                                                   {Mode::kPull, "pull"},
                                                   {Mode::kPushPull, "push_pull"},
                                                   {Mode::kPushThenPull, "push_then_pull"}};

constexpr double kLearningRate = 0.01, kMomentum = 0.9;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

NDArray Filled(const Shape& shape, double value, DType dtype = DType::kFloat32) {
  NDArray array = NDArray::Empty(shape, cpu(0), dtype);
  array.Fill(value);
  return array;
}

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(q * static_cast<double>(values.size())))];
}

}  // namespace

const char* Name(Mode mode) {
  return std::find_if(std::begin(kModes), std::end(kModes), [&](const auto& m) { return m.first == mode; })
      ->second;
}

Mode ModeFromName(const std::string& name) {
  for (const auto& [mode, known] : kModes) {
    if (name == known) return mode;
  }
  throw Error(ErrorCode::kInvalidArgument,
              StrCat("there is no mode '", name, "'; the modes are push, pull, push_pull, push_then_pull"));
}

Update UpdateFromName(const std::string& name) {
  if (name == "none") return Update::kNone;
  if (name == "accumulate") return Update::kAccumulate;
  if (name == "sgd") return Update::kSgd;
  throw Error(ErrorCode::kInvalidArgument,
              StrCat("there is no update '", name, "'; it is none, accumulate or sgd"));
}

void SetUpdate(KVStore& store, Update update) {
  if (update == Update::kAccumulate) store.SetOptimizer({.kind = OptimizerKind::kAccumulate});
  if (update == Update::kSgd)
    store.SetOptimizer({.kind = OptimizerKind::kSgd, .learning_rate = kLearningRate, .momentum = kMomentum});
}

Exchange::Exchange(std::shared_ptr<KVStore> store, Update update)
    : store_(std::move(store)),
      update_(update),
      now_(static_cast<size_t>(store_->num_workers())),
      before_(now_) {
  store_->Init(std::string("exchange"), Filled({store_->num_workers()}, 0, DType::kFloat64));
}

std::vector<double> Exchange::Gather(double mine) {
  std::vector<double> numbers(now_.size());
  numbers[static_cast<size_t>(store_->rank())] = mine;
  NDArray array = NDArray::From(std::span<const double>(numbers), {store_->num_workers()});
  store_->Push(std::string("exchange"), array);
  store_->WaitAll();
  store_->Barrier();
  store_->PullLatest({std::string("exchange")}, {{array}});
  const std::vector<double> after = array.ToVector<double>();
  store_->Barrier();  // nobody pushes the next numbers before all have read these
  for (size_t i = 0; i < after.size(); ++i) {
    // What was pushed, from what the update made of it. sgd: v' = momentum v - lr g, w' = w + v'.
    numbers[i] = update_ == Update::kNone ? after[i]
                 : update_ == Update::kAccumulate
                     ? after[i] - now_[i]
                     : (kMomentum * (now_[i] - before_[i]) - (after[i] - now_[i])) / kLearningRate;
  }
  before_ = std::exchange(now_, after);
  return numbers;
}

Load::Load(std::shared_ptr<KVStore> store, const LoadOptions& options, Exchange& exchange)
    : store_(std::move(store)), options_(options), exchange_(exchange) {
  std::vector<NDArray> values;
  for (size_t i = 0; i < options.bytes.size(); ++i) {
    const Shape shape = {options.bytes[i] / 4};
    names_.push_back(StrCat(Name(options.mode), "/", options.bytes.size(), "/", i, "/", options.bytes[i]));
    gradients_.push_back(Filled(shape, 1));
    outs_.push_back(Filled(shape, 0));
    values.push_back(outs_.back());
  }
  store_->Init(names_, values);
}

void Load::Issue(size_t key) {
  switch (options_.mode) {
    case Mode::kPush:
      return store_->Push(names_[key], gradients_[key]);
    case Mode::kPull:
      return store_->Pull(names_[key], &outs_[key]);
    case Mode::kPushPull:
      return store_->PushPull(names_[key], gradients_[key], &outs_[key]);
    case Mode::kPushThenPull:
      store_->Push(names_[key], gradients_[key]);
      return store_->Pull(names_[key], &outs_[key]);
  }
}

void Load::Finish(size_t key) {
  if (options_.mode == Mode::kPush) return store_->WaitAll();
  outs_[key].WaitToRead();
}

// A pass ahead of the results: the pipeline holds every key once.
double Load::Pass() {
  const double start = Now();
  for (size_t i = 0; i < names_.size(); ++i) {
    if (options_.mode != Mode::kPush) Finish(i);
    Issue(i);
  }
  if (options_.mode == Mode::kPush) store_->WaitAll();
  return Now() - start;
}

int64_t Load::AgreePasses() {
  Pass();
  store_->WaitAll();
  const double start = Now();
  int passes = 0;
  do {
    Pass();
    store_->WaitAll();
  } while (++passes < 3);
  const double one = (Now() - start) / passes;
  const double first = exchange_.Gather(one).front();
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(options_.seconds / first)));
}

LoadFigures Load::Run(const std::function<void()>& around_throughput) {
  const int64_t passes = AgreePasses();
  LoadFigures figures;
  const int64_t bytes = std::accumulate(options_.bytes.begin(), options_.bytes.end(), int64_t{0});
  const double gbyte_of_repeat = static_cast<double>(passes * bytes * store_->num_workers()) * 1e-9;
  std::vector<double> rates;
  around_throughput();
  for (int repeat = 0; repeat < options_.repeats; ++repeat) {
    store_->Barrier();
    const double start = Now();
    for (int64_t pass = 0; pass < passes; ++pass) Pass();
    store_->WaitAll();
    store_->Barrier();
    const double seconds = Now() - start;
    rates.push_back(gbyte_of_repeat * 8 / seconds);
    figures.seconds += seconds;
  }
  around_throughput();
  figures.passes = passes * options_.repeats;
  figures.gbyte = gbyte_of_repeat * options_.repeats;
  figures.gbit_per_s = Quantile(rates, 0.5);
  std::vector<double> micros;
  for (int i = 0; i < options_.latency_samples; ++i) {
    const size_t key = static_cast<size_t>(i) % names_.size();
    const double start = Now();
    Issue(key);
    Finish(key);
    micros.push_back((Now() - start) * 1e6);
  }
  store_->Barrier();
  figures.p50_us = Quantile(micros, 0.5);
  figures.p99_us = Quantile(micros, 0.99);
  return figures;
}

}  // namespace sluice::bench
