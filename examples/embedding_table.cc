// A table far larger than what a step touches: a row-sparse key, trained towards targets.
//
//   build/bin/embedding_table                                    in one process
//   tools/launch.py -n 2 -s 2 build/bin/embedding_table --kv-store dist_sync --rows 10000000 --ids 100000
//
// A step names ids as words of a text come, few of them often and most of them seldom (Zipf's law), pulls
// their rows, and pushes the mean gradient of each row.
#include <gflags/gflags.h>

#include <chrono>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <unordered_map>

#include "base/rng.h"
#include "base/strings.h"
#include "runtime/flags.h"
#include "sluice/error.h"
#include "sluice/kvstore.h"
#include "sluice/runtime.h"

DEFINE_string(kv_store, "local",
              "Type of the store: local, device, dist_sync, dist_device_sync, dist_async.");
DEFINE_int64(rows, 1'000'000, "Rows of the table.");
DEFINE_int64(columns, 64, "Elements of a row.");
DEFINE_int64(ids, 10'000, "Ids that each worker names in a step.");
DEFINE_int64(num_steps, 20, "Steps.");
DEFINE_double(lr, 0.5, "Learning rate.");
DEFINE_uint64(seed, 0, "Of the ids and of how rows begin.");

namespace {

using sluice::KVStore;
using sluice::NDArray;
using Milliseconds = std::chrono::duration<double, std::milli>;

void RequirePositive(const char* flag, double value) {
  if (value > 0) return;
  throw sluice::Error(sluice::ErrorCode::kInvalidArgument,
                      sluice::StrCat("--", flag, " is ", value, "; it must be above 0"));
}

// Id i with a probability near 1 / (i + 1).
std::vector<int64_t> IdsOfStep(int64_t step, int rank) {
  sluice::Rng rng(sluice::DeriveSeed(FLAGS_seed, step, rank));
  std::vector<int64_t> ids(static_cast<size_t>(FLAGS_ids));
  for (int64_t& id : ids) {
    const double drawn = std::pow(static_cast<double>(FLAGS_rows), rng.Uniform()) - 1;
    id = std::min(static_cast<int64_t>(drawn), FLAGS_rows - 1);
  }
  return ids;
}

float TargetOf(int64_t id, int64_t column) {
  return static_cast<float>((id * 31 + column) % 17) / 17 - 0.5f;
}

// The mean over a worker's ids of half the squared distance to the targets; `rows` become its gradient, of
// which the ids of one row have a share each.
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

void Train() {
  RequirePositive("rows", static_cast<double>(FLAGS_rows));
  RequirePositive("columns", static_cast<double>(FLAGS_columns));
  RequirePositive("ids", static_cast<double>(FLAGS_ids));
  RequirePositive("num-steps", static_cast<double>(FLAGS_num_steps));
  const auto kv = KVStore::Create(FLAGS_kv_store);
  const sluice::Key table = std::string("embedding");
  kv->InitRowSparse(table, {FLAGS_rows, FLAGS_columns}, sluice::DType::kFloat32,
                    sluice::RowInit::Uniform(-0.5, 0.5, FLAGS_seed));
  kv->SetOptimizer({.kind = sluice::OptimizerKind::kSgd, .learning_rate = FLAGS_lr, .momentum = 0});
  kv->Barrier();

  const sluice::Shape shape = {FLAGS_ids, FLAGS_columns};
  NDArray rows(shape);
  const double megabytes = static_cast<double>(shape.size()) * sizeof(float) / 1e6;
  for (int64_t step = 1; step <= FLAGS_num_steps; ++step) {
    const std::vector<int64_t> ids = IdsOfStep(step, kv->rank());
    const NDArray id_array = NDArray::From(std::span<const int64_t>(ids), {FLAGS_ids});
    const auto start = std::chrono::steady_clock::now();
    kv->RowSparsePull(table, id_array, &rows);
    std::vector<float> values = rows.ToVector();
    const auto pulled = std::chrono::steady_clock::now();
    const double loss = LossAndGradient(ids, values);
    const NDArray gradient = NDArray::From(std::span<const float>(values), shape);
    const auto computed = std::chrono::steady_clock::now();
    kv->PushRowSparse(table, {id_array, gradient}, {.divisor = static_cast<double>(kv->num_workers())});
    kv->WaitAll();
    const auto pushed = std::chrono::steady_clock::now();
    if (kv->rank() != 0) continue;
    std::cout << "step " << std::setw(3) << step << "  loss " << std::fixed << std::setprecision(5) << loss
              << std::setprecision(1) << "  pull " << Milliseconds(pulled - start).count() << " ms  push "
              << Milliseconds(pushed - computed).count() << " ms" << std::endl;
  }
  kv->Barrier();
  if (kv->rank() != 0) return;
  std::cout << "each step and worker: " << FLAGS_ids << " ids, " << megabytes << " MB of a table of "
            << static_cast<double>(FLAGS_rows) * static_cast<double>(FLAGS_columns) * sizeof(float) / 1e6
            << " MB" << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  return sluice::RunProgram(argc, argv, [&] {
    sluice::runtime::ParseFlags(argc, argv, "Trains a row-sparse table of embeddings.");
    Train();
  });
}
