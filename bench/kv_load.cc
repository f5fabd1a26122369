#include "kv_load.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::bench {
namespace {

constexpr std::pair<Mode, const char*> kModes[] = {{Mode::kPush, "push"},
                                                   {Mode::kPull, "pull"},
                                                   {Mode::kPushPull, "push_pull"},
                                                   {Mode::kPushThenPull, "push_then_pull"}};

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

Exchange::Exchange(std::shared_ptr<KVStore> store, bool accumulates)
    : store_(std::move(store)),
      accumulates_(accumulates),
      before_(static_cast<size_t>(store_->num_workers())) {
  store_->Init(std::string("exchange"), Filled({store_->num_workers()}, 0, DType::kFloat64));
}

std::vector<double> Exchange::Gather(double mine) {
  std::vector<double> numbers(before_.size());
  numbers[static_cast<size_t>(store_->rank())] = mine;
  NDArray array = NDArray::From(std::span<const double>(numbers), {store_->num_workers()});
  store_->Push(std::string("exchange"), array);
  store_->WaitAll();
  store_->Barrier();
  store_->PullLatest({std::string("exchange")}, {{array}});
  const std::vector<double> now = array.ToVector<double>();
  store_->Barrier();  // nobody pushes the next numbers before all have read these
  for (size_t i = 0; i < now.size(); ++i) numbers[i] = accumulates_ ? now[i] - before_[i] : now[i];
  before_ = now;
  return numbers;
}

Load::Load(std::shared_ptr<KVStore> store, const LoadOptions& options, Exchange& exchange)
    : store_(std::move(store)), options_(options), exchange_(exchange) {
  const int64_t elements = options.bytes / 4;
  std::vector<NDArray> values;
  for (int64_t i = 0; i < options.keys; ++i) {
    names_.push_back(StrCat(Name(options.mode), "/", options.bytes, "/", i));
    gradients_.push_back(Filled({elements}, 1));
    outs_.push_back(Filled({elements}, 0));
    values.push_back(outs_.back());
  }
  store_->Init(names_, values);
}

void Load::Issue(int64_t k) {
  const auto i = static_cast<size_t>(k);
  switch (options_.mode) {
    case Mode::kPush:
      return store_->Push(names_[i], gradients_[i]);
    case Mode::kPull:
      return store_->Pull(names_[i], &outs_[i]);
    case Mode::kPushPull:
      return store_->PushPull(names_[i], gradients_[i], &outs_[i]);
    case Mode::kPushThenPull:
      store_->Push(names_[i], gradients_[i]);
      return store_->Pull(names_[i], &outs_[i]);
  }
}

void Load::Finish(int64_t k) {
  if (options_.mode == Mode::kPush) return store_->WaitAll();
  outs_[static_cast<size_t>(k)].WaitToRead();
}

// A pass ahead of the results: the pipeline holds every key once.
double Load::Pass() {
  const double start = Now();
  for (int64_t k = 0; k < options_.keys; ++k) {
    if (options_.mode != Mode::kPush) Finish(k);
    Issue(k);
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
  const double gbyte_of_repeat =
      static_cast<double>(passes * options_.keys * options_.bytes * store_->num_workers()) * 1e-9;
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
  figures.gbyte = gbyte_of_repeat * options_.repeats;
  figures.gbit_per_s = Quantile(rates, 0.5);
  std::vector<double> micros;
  for (int i = 0; i < options_.latency_samples; ++i) {
    const int64_t key = i % options_.keys;
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
