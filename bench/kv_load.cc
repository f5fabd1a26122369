// Runs one measurement of kv_bench: throughput in pipelined passes over all keys, then the latency of single
// calls.
//
// All workers execute the same sequence of calls: the number of passes is measured on worker 0 and
// distributed with Exchange, and barriers separate the repeats. Everything runs on kv_bench's main thread.
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
constexpr int64_t kLongPass = 32 << 20;  // bytes; a barrier adds at most a hundredth to a pass of this size

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

NDArray Filled(const Shape& shape, double value, Context context, DType dtype = DType::kFloat32) {
  NDArray array = NDArray::Empty(shape, context, dtype);
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
  store_->Init(std::string("exchange"), Filled({store_->num_workers()}, 0, cpu(0), DType::kFloat64));
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
  store_->Barrier();  // all workers have read these numbers before one of them pushes the next
  for (size_t i = 0; i < after.size(); ++i) {
    // Recovers the pushed number from the key's values. For sgd, v' = momentum v - lr g and w' = w + v'.
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
  const int64_t of_pass = std::accumulate(options.bytes.begin(), options.bytes.end(), int64_t{0});
  meets_ = options.mode == Mode::kPush && store_->num_workers() > 1 && of_pass >= kLongPass;
  std::vector<Key> names;
  std::vector<NDArray> values;
  for (size_t i = 0; i < options.bytes.size(); ++i) {
    const Shape shape = {options.bytes[i] / 4};
    const size_t calls = options.calls == 0 ? options.bytes.size() : options.calls;
    calls_.resize(i * calls / options.bytes.size() + 1);
    Call& call = calls_.back();
    names.push_back(StrCat(Name(options.mode), "/", options.bytes.size(), "/", i, "/", options.bytes[i]));
    values.push_back(Filled(shape, 0, options.context));
    call.keys.push_back(names.back());
    // In place, the results become the next gradients; they start at 0, so that sums of them stay finite.
    call.gradients.push_back({options.in_place ? values.back() : Filled(shape, 1, options.context)});
    call.outs.push_back({values.back()});
  }
  store_->Init(names, values);
}

void Load::Issue(const Call& call) {
  switch (options_.mode) {
    case Mode::kPush:
      return store_->Push(call.keys, call.gradients);
    case Mode::kPull:
      return store_->Pull(call.keys, call.outs);
    case Mode::kPushPull:
      return store_->PushPull(call.keys, call.gradients, call.outs);
    case Mode::kPushThenPull:
      store_->Push(call.keys, call.gradients);
      return store_->Pull(call.keys, call.outs);
  }
}

void Load::Finish(const Call& call) {
  if (options_.mode == Mode::kPush) return store_->WaitAll();
  for (const KVStore::Values& outs : call.outs) outs.front().WaitToRead();
}

// Issues each call as soon as its previous results have arrived, so that every key is in flight once.
double Load::Pass() {
  const double start = Now();
  for (const Call& call : calls_) {
    if (options_.mode != Mode::kPush) Finish(call);
    Issue(call);
  }
  if (options_.mode == Mode::kPush) store_->WaitAll();
  if (meets_) store_->Barrier();
  return Now() - start;
}

int64_t Load::Agree(double seconds, const std::function<void()>& work) {
  work();
  const double start = Now();
  constexpr int kTimes = 3;
  for (int i = 0; i < kTimes; ++i) work();
  const double first = exchange_.Gather((Now() - start) / kTimes).front();
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(seconds / first)));
}

LoadFigures Load::Run(const std::function<void()>& around_throughput) {
  const int64_t passes = Agree(options_.seconds, [this] {
    Pass();
    store_->WaitAll();
  });
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
  MeasureLatency(&figures);
  return figures;
}

void Load::MeasureLatency(LoadFigures* figures) {
  size_t next = 0;
  std::vector<double> micros;
  const auto sample = [&] {
    const Call& call = calls_[next++ % calls_.size()];
    if (meets_) store_->Barrier();
    const double start = Now();
    Issue(call);
    Finish(call);
    micros.push_back((Now() - start) * 1e6);
  };
  const int64_t fitting = Agree(options_.seconds * options_.repeats, sample);
  micros.clear();
  const int64_t least = std::min(options_.latency_samples, 20);
  const int64_t samples = std::clamp<int64_t>(fitting, least, options_.latency_samples);
  for (int64_t i = 0; i < samples; ++i) sample();
  store_->Barrier();
  figures->p50_us = Quantile(micros, 0.5);
  figures->p99_us = Quantile(micros, 0.99);
  figures->latency_samples = static_cast<int>(samples);
}

}  // namespace sluice::bench
