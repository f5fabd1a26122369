// Trains an embedding table of which each step touches few rows: a row-sparse key. The rows move towards
// known targets, so that --check can tell whether every value is right.
//
//   build/bin/embedding_table                                    in one process
//   tools/launch.py -n 2 -s 2 build/bin/embedding_table --kv-store dist_sync --rows 10000000 --ids 100000
//
// In a step each worker draws ids, pulls the rows of these ids, and pushes a gradient for them. The ids
// follow Zipf's law, as words of a text do (a few ids are frequent and most are rare), or are uniform.
#include <gflags/gflags.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <unordered_map>
#include <vector>

#include "common/files.h"
#include "common/text.h"
#include "sluice/flags.h"
#include "sluice/job.h"
#include "sluice/kvstore.h"
#include "sluice/runtime.h"
#include "sluice/store_type.h"

DEFINE_string(kv_store, "local",
              "Type of the store: local, device, nccl, dist_sync, dist_device_sync, dist_async, "
              "dist_device_async, or one of "
              "MXNet's other names of these.");
DEFINE_int64(rows, 1'000'000, "Rows of the table.");
DEFINE_int64(columns, 64, "Elements of a row.");
DEFINE_int64(ids, 10'000, "Ids that each worker names in a step.");
DEFINE_string(distribution, "zipf", "How ids are distributed: zipf, or uniform.");
DEFINE_int64(num_steps, 20, "Steps.");
DEFINE_double(lr, 0.5, "Learning rate.");
DEFINE_uint64(seed, 0, "Seed of the ids and of the rows' first values.");
DEFINE_bool(check, false,
            "Fetch the rows of worker 0's first step again at the end, and fail where one is not what the "
            "steps make of it. Not for dist_async, whose gradients may be of older rows.");
DEFINE_string(json, "",
              "Write losses, times, bytes and the servers' largest resident sizes to this file (worker 0).");

namespace {

using sluice::KVStore;
using sluice::NDArray;
using sluice::examples::StrCat;
using Milliseconds = std::chrono::duration<double, std::milli>;

// The tolerance of --check: gradients are rounded to float32 a few times between worker and table.
constexpr double kRounding = 1e-5;

[[noreturn]] void ThrowInvalid(const std::string& why) {
  throw sluice::Error(sluice::ErrorCode::kInvalidArgument, why);
}

void CheckFlags() {
  for (const auto& [flag, value] : {std::pair("rows", FLAGS_rows), std::pair("columns", FLAGS_columns),
                                    std::pair("ids", FLAGS_ids), std::pair("num-steps", FLAGS_num_steps)})
    if (value <= 0) ThrowInvalid(StrCat("--", flag, " is ", value, "; it must be above 0"));
  if (FLAGS_distribution != "zipf" && FLAGS_distribution != "uniform")
    ThrowInvalid(StrCat("--distribution is '", FLAGS_distribution, "'; it takes zipf or uniform"));
  if (FLAGS_check && sluice::StoreType::Parse(FLAGS_kv_store).async)
    ThrowInvalid("--check needs a store in which no gradient is of older rows; it is " + FLAGS_kv_store);
}

// Returns the ids of one worker's step. They depend on --seed, step and rank alone, so that
// --check can draw the ids of all workers again. Under Zipf's law the probability of id i is about
// proportional to 1 / (i + 1).
std::vector<int64_t> IdsOfStep(int64_t step, int rank) {
  std::seed_seq seed{FLAGS_seed, static_cast<uint64_t>(step), static_cast<uint64_t>(rank)};
  std::mt19937_64 bits(seed);
  const auto uniform = [&] { return static_cast<double>(bits() >> 11) * 0x1.0p-53; };  // [0, 1)
  std::vector<int64_t> ids(static_cast<size_t>(FLAGS_ids));
  for (int64_t& id : ids) {
    const auto rows = static_cast<double>(FLAGS_rows);
    const double drawn = FLAGS_distribution == "zipf" ? std::pow(rows, uniform()) - 1 : rows * uniform();
    id = std::min(static_cast<int64_t>(drawn), FLAGS_rows - 1);
  }
  return ids;
}

NDArray ArrayOf(const std::vector<int64_t>& ids) {
  return NDArray::From(ids, {FLAGS_ids});
}

float TargetOf(int64_t id, int64_t column) {
  return static_cast<float>((id * 31 + column) % 17) / 17 - 0.5f;
}

// Returns the loss: the mean over all elements of half the squared distance to the target. Replaces `rows` by
// the gradient. The store adds the gradients of an id that occurs several times, so each occurrence gets an
// equal share of the row's gradient.
double LossAndGradient(const std::vector<int64_t>& ids, std::vector<float>& rows) {
  std::unordered_map<int64_t, int> times;
  for (const int64_t id : ids) ++times[id];
  double loss = 0;
  size_t at = 0;
  for (const int64_t id : ids) {
    const auto share = 1 / static_cast<float>(times[id]);
    for (int64_t column = 0; column < FLAGS_columns; ++column, ++at) {
      const float distance = rows[at] - TargetOf(id, column);
      loss += 0.5 * distance * distance;
      rows[at] = distance * share;
    }
  }
  return loss / static_cast<double>(rows.size());
}

// The measurements of this worker.
struct Log {
  std::vector<double> loss, pull_ms, push_ms;  // by step
  std::vector<float> first_rows;               // the rows that step 1 pulled; with --check only
};

// The row-sparse key. A pull or push transfers only the rows of the ids that it names.
class Table {
 public:
  explicit Table(std::shared_ptr<KVStore> kv) : kv_(std::move(kv)), rows_({FLAGS_ids, FLAGS_columns}) {
    kv_->InitRowSparse(key_, {FLAGS_rows, FLAGS_columns}, sluice::DType::kFloat32,
                       sluice::RowInit::Uniform(-0.5, 0.5, FLAGS_seed));
    kv_->SetOptimizer({.kind = sluice::OptimizerKind::kSgd, .learning_rate = FLAGS_lr, .momentum = 0});
    kv_->Barrier();
  }

  std::vector<float> Pull(const NDArray& ids) {
    kv_->RowSparsePull(key_, ids, &rows_);
    return rows_.ToVector();
  }
  void Push(const NDArray& ids, const NDArray& gradient) {
    kv_->PushRowSparse(key_, {ids, gradient}, {.divisor = static_cast<double>(kv_->num_workers())});
    kv_->WaitAll();
  }

 private:
  const std::shared_ptr<KVStore> kv_;
  const sluice::Key key_ = "embedding";
  NDArray rows_;
};

void Step(int64_t step, int rank, Table& table, Log& log) {
  const std::vector<int64_t> ids = IdsOfStep(step, rank);
  const NDArray id_array = ArrayOf(ids);
  const auto start = std::chrono::steady_clock::now();
  std::vector<float> values = table.Pull(id_array);
  const auto pulled = std::chrono::steady_clock::now();
  if (step == 1 && FLAGS_check) log.first_rows = values;
  log.loss.push_back(LossAndGradient(ids, values));
  const NDArray gradient = NDArray::From(values, {FLAGS_ids, FLAGS_columns});
  const auto computed = std::chrono::steady_clock::now();
  table.Push(id_array, gradient);
  log.pull_ms.push_back(Milliseconds(pulled - start).count());
  log.push_ms.push_back(Milliseconds(std::chrono::steady_clock::now() - computed).count());
  if (rank != 0) return;
  const double loss = std::isnan(log.loss.back()) ? NAN : log.loss.back();  // prints "nan", never "-nan"
  std::cout << "step " << std::setw(3) << step << "  loss " << std::fixed << std::setprecision(5) << loss
            << std::setprecision(1) << "  pull " << log.pull_ms.back() << " ms  push " << log.push_ms.back()
            << " ms" << std::endl;
}

// Returns by id the factor by which all steps have shrunk the row's distance to its target. A step in which
// `count` workers name the id multiplies the distance by 1 - lr * count / workers.
std::unordered_map<int64_t, double> DistancesLeft(const std::vector<int64_t>& ids, int workers) {
  std::unordered_map<int64_t, double> left;
  for (const int64_t id : ids) left[id] = 1;
  for (int64_t step = 1; step <= FLAGS_num_steps; ++step) {
    std::unordered_map<int64_t, int> named;
    for (int rank = 0; rank < workers; ++rank) {
      std::vector<int64_t> theirs = IdsOfStep(step, rank);
      std::ranges::sort(theirs);
      theirs.erase(std::unique(theirs.begin(), theirs.end()), theirs.end());
      for (const int64_t id : theirs)
        if (left.contains(id)) ++named[id];
    }
    for (const auto& [id, count] : named) left[id] *= 1 - FLAGS_lr * count / workers;
  }
  return left;
}

// Pulls the rows of worker 0's first step again and compares them with the values that the steps must give.
void CheckRows(int workers, Table& table, const Log& log) {
  const std::vector<int64_t> ids = IdsOfStep(1, 0);
  const std::vector<float> rows = table.Pull(ArrayOf(ids));
  const auto left = DistancesLeft(ids, workers);
  double worst = 0;
  size_t at = 0;
  for (const int64_t id : ids) {
    for (int64_t column = 0; column < FLAGS_columns; ++column, ++at) {
      const double target = TargetOf(id, column), must = target + (log.first_rows[at] - target) * left.at(id);
      worst = std::max(worst, std::abs(rows[at] - must));
    }
  }
  if (!(worst <= kRounding)) {
    throw sluice::Error(sluice::ErrorCode::kDataLoss,
                        StrCat("a row is ", worst, " from what the steps make of it"));
  }
  std::cout << FLAGS_ids << " rows checked, all values right" << std::endl;
}

double TableBytes(int64_t rows) {
  return static_cast<double>(rows) * static_cast<double>(FLAGS_columns) * sizeof(float);
}

nlohmann::json ToJson(const Log& log, int workers) {
  nlohmann::json servers = nlohmann::json::object();
  double in = 0, out = 0;
  if (sluice::StoreType::Parse(FLAGS_kv_store).distributed) {
    for (auto& [process, counters] : sluice::JobCounters()) {
      if (!process.starts_with("server")) continue;
      servers[process] = static_cast<double>(counters["max_rss_kb"]) * 1024;
      in += static_cast<double>(counters["bytes_in"]);
      out += static_cast<double>(counters["bytes_out"]);
    }
  }
  const double steps = static_cast<double>(FLAGS_num_steps) * workers;
  return {{"loss", log.loss},
          {"pull_ms", log.pull_ms},
          {"push_ms", log.push_ms},
          {"pushed_bytes", in / steps},
          {"pulled_bytes", out / steps},
          {"table_bytes", TableBytes(FLAGS_rows)},
          {"server_max_rss_bytes", servers}};
}

void Train() {
  CheckFlags();
  const auto kv = KVStore::Create(FLAGS_kv_store);
  Table table(kv);
  Log log;
  for (int64_t step = 1; step <= FLAGS_num_steps; ++step) Step(step, kv->rank(), table, log);
  kv->Barrier();
  if (kv->rank() == 0) {
    if (!FLAGS_json.empty()) {
      sluice::examples::WriteFile(FLAGS_json, ToJson(log, kv->num_workers()).dump() + "\n");
    }
    if (FLAGS_check) CheckRows(kv->num_workers(), table, log);
    std::cout << "each step and worker: " << FLAGS_ids << " ids, " << TableBytes(FLAGS_ids) / 1e6
              << " MB of a table of " << TableBytes(FLAGS_rows) / 1e6 << " MB" << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  sluice::RestartWithBriefSpins(argc, argv);
  return sluice::RunProgram(argc, argv, [&] {
    sluice::ParseFlags(argc, argv, "Trains a row-sparse table of embeddings.");
    Train();
  });
}
