// Measures how fast a server's shard closes rounds, compared with a plain loop over the same arrays that runs
// at the speed of the memory. Their ratio shows how much time the shard spends on anything else. There is no
// network: the benchmark passes pushes to the shard as frames in memory, on the main thread. It measures each
// number of workers with two updates: the sum is added to the weight (accumulate), or SGD with momentum.
//
//   build/bin/close_bench --workers 2,8
#include <gflags/gflags.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/rng.h"
#include "base/simd.h"
#include "base/strings.h"
#include "runtime/program_flags.h"
#include "server/shard.h"
#include "sluice/error.h"

DEFINE_string(workers, "1,2,4,8,33,48", "How many push, comma-separated: one measurement each.");
DEFINE_int32(parts, 64, "Parts of 1 MiB of the key; all arrays together should exceed the caches.");
DEFINE_int32(repeats, 15, "Pairs of passes over all parts, the shard's and the plain loop's; medians count.");

namespace sluice {
namespace {

constexpr int64_t kElements = 1 << 18;  // elements of a part
constexpr size_t kPartBytes = kElements * sizeof(float);
constexpr float kRate = 0.01f, kMomentum = 0.9f;

// One array per part of the key.
using Arrays = std::vector<Frame>;

// Returns `count` arrays filled with `value`. Each begins `offset` bytes after the start of a
// page. The callers use different offsets, because a loop over two arrays with the same offset in
// their pages is slower.
Arrays Filled(size_t count, float value, size_t offset) {
  Arrays arrays;
  for (size_t i = 0; i < count; ++i) {
    const auto buffer = std::make_shared<Buffer>(offset + kPartBytes);
    std::fill_n(reinterpret_cast<float*>(buffer->data() + offset), kElements, value);
    arrays.push_back(Frame::Of(buffer).Slice(offset, kPartBytes));
  }
  return arrays;
}

const float* Read(const Frame& array) {
  return reinterpret_cast<const float*>(array.data());
}
float* Write(const Frame& array) {
  return const_cast<float*>(Read(array));
}

std::vector<float> Normals() {
  Rng rng(1);
  std::vector<float> normals(kElements);
  for (float& x : normals) x = static_cast<float>(0.01 * rng.Normal());
  return normals;
}
// Returns one worker's gradients: in each part the same numbers, rotated by a different count.
Arrays GradientsOf(uint32_t worker, size_t count, const std::vector<float>& normals) {
  Arrays arrays = Filled(count, 0, 64 * worker);
  for (size_t i = 0; i < count; ++i) {
    const auto turn = static_cast<int64_t>((worker * count + i) * 7919 % normals.size());
    std::rotate_copy(normals.begin(), normals.begin() + turn, normals.end(), Write(arrays[i]));
  }
  return arrays;
}

// One measurement.
struct Case {
  uint32_t workers;
  bool sgd;  // true: SGD with momentum; false: the sum of the gradients is added to the weight
  // Bytes read and written: gradients, weight and state are read, weight and state are written.
  double BytesPerElement() const { return sizeof(float) * (workers + 2.0 + (sgd ? 2.0 : 0.0)); }
};

SLUICE_SIMD void Add(const float* const* from, size_t count, float* sum, int64_t n) {
  const float *a = from[0], *b = from[1], *c = from[2], *d = from[3];
  if (count == 2) {
    for (int64_t i = 0; i < n; ++i) sum[i] = a[i] + b[i];
  } else if (count == 3) {
    for (int64_t i = 0; i < n; ++i) sum[i] = a[i] + b[i] + c[i];
  } else {
    for (int64_t i = 0; i < n; ++i) sum[i] = a[i] + b[i] + c[i] + d[i];
  }
}
SLUICE_SIMD void Descend(const float* sum, float* weight, float* state, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    state[i] = kMomentum * state[i] - kRate * sum[i];
    weight[i] += state[i];
  }
}

// The plain loop. It works block by block, so that partial sums stay in the first-level cache, and sums up to
// four arrays in one pass.
class Plain {
 public:
  Plain(const Case& c, const std::vector<Arrays>& gradients)
      : case_(c),
        gradients_(gradients),
        weights_(Filled(gradients.front().size(), 1, 1344)),
        states_(Filled(c.sgd ? gradients.front().size() : 0, 0, 2688)) {}

  void Round() {
    constexpr int64_t kBlock = 2048;
    float block[kBlock];
    for (size_t part = 0; part < weights_.size(); ++part) {
      for (int64_t begin = 0; begin < kElements; begin += kBlock) {
        float* weight = Write(weights_[part]) + begin;
        const float* from[4] = {Read(gradients_[0][part]) + begin};
        for (size_t next = 1; next < gradients_.size(); from[0] = block) {
          size_t count = 1;
          while (count < 4 && next < gradients_.size())
            from[count++] = Read(gradients_[next++][part]) + begin;
          Add(from, count, block, kBlock);
        }
        if (case_.sgd) {
          Descend(from[0], weight, Write(states_[part]) + begin, kBlock);
        } else {
          from[1] = weight;
          Add(from, 2, weight, kBlock);
        }
      }
    }
  }

 private:
  const Case case_;
  const std::vector<Arrays>& gradients_;
  const Arrays weights_, states_;
};

// A network that drops every message, but throws the error of an ErrorReply.
class Silence final : public transport::Network {
 public:
  transport::PeerId Connect(const std::string&) override { return {}; }
  void Disconnect(transport::PeerId) override {}
  void Send(transport::PeerId, wire::Message message) override {
    if (const auto* error = std::get_if<wire::ErrorReply>(&message.body))
      throw Error(error->code, error->message);
  }
  uint64_t QueuedBytes(transport::PeerId) const override { return 0; }
  bool HasRoom(transport::PeerId) override { return true; }
};

// A shard with one key, which receives the pushes of all workers.
class Server {
 public:
  Server(const Case& c, const std::vector<Arrays>& gradients) : gradients_(gradients) {
    std::vector<wire::NodeInfo> roster;
    for (uint32_t rank = 0; rank < c.workers; ++rank)
      roster.push_back({.role = wire::Role::kWorker, .rank = rank, .incarnation = 1});
    shard_.SetMembership(0, 1, roster, network_);
    const auto parts = static_cast<int64_t>(gradients.front().size());
    wire::KeyEntry key;
    key.spec = {int64_t{0}, DType::kFloat32, Shape{parts * kElements}};
    key.slices = {{0, 0, parts * kElements}};
    key.part_elements = kElements;
    shard_.AddKeys({key}).OrThrow();
    OptimizerConfig optimizer{.kind = OptimizerKind::kAccumulate};
    if (c.sgd) optimizer = {.kind = OptimizerKind::kSgd, .learning_rate = kRate, .momentum = kMomentum};
    shard_.SetOptimizer(optimizer, {}).OrThrow();
    for (uint32_t part = 0; part < gradients.front().size(); ++part)
      Deliver(0, wire::Store{.parts = {{.ref = {0, part}}}}, gradients[0][part]);
  }

  void Round() {
    ++round_;
    for (uint32_t part = 0; part < gradients_.front().size(); ++part) {
      for (uint32_t rank = 0; rank < gradients_.size(); ++rank)
        Deliver(rank, wire::Push{.parts = {{{0, part}, round_, false}}}, gradients_[rank][part]);
    }
  }

 private:
  void Deliver(uint32_t rank, wire::Body body, const Frame& payload) {
    wire::Message message;
    message.sender = {wire::Role::kWorker, rank, 1};
    message.id = ++last_id_;
    message.body = std::move(body);
    message.payload = {payload};
    shard_.OnMessage(Time{}, transport::PeerId{1 + rank}, std::move(message), network_);
  }

  const std::vector<Arrays>& gradients_;
  Silence network_;
  server::Shard shard_{server::ShardOptions{}};
  uint64_t round_ = 0, last_id_ = 0;
};

template <typename Rounds>
double Seconds(Rounds& rounds) {
  const auto start = std::chrono::steady_clock::now();
  rounds.Round();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

nlohmann::json Measure(const Case& c) {
  std::vector<Arrays> gradients;
  const std::vector<float> normals = Normals();
  for (uint32_t w = 0; w < c.workers; ++w)
    gradients.push_back(GradientsOf(w, static_cast<size_t>(FLAGS_parts), normals));
  Plain plain(c, gradients);
  Server server(c, gradients);
  const double gigabytes = c.BytesPerElement() * static_cast<double>(kElements) * FLAGS_parts * 1e-9;
  std::vector<double> of_plain, of_server, ratios;
  for (int repeat = -2; repeat < FLAGS_repeats; ++repeat) {
    const double plain_seconds = Seconds(plain), server_seconds = Seconds(server);
    if (repeat < 0) continue;  // warm-up
    of_plain.push_back(gigabytes / plain_seconds);
    of_server.push_back(gigabytes / server_seconds);
    ratios.push_back(plain_seconds / server_seconds);
  }
  return {{"workers", c.workers},
          {"update", c.sgd ? "sgd" : "accumulate"},
          {"server_gb_per_sec", Median(of_server)},
          {"plain_gb_per_sec", Median(of_plain)},
          {"ratio", Median(ratios)}};
}

std::vector<uint32_t> WorkersFlag() {
  std::vector<uint32_t> counts;
  for (const std::string& text : StrSplit(FLAGS_workers, ',')) {
    const auto count = ParseInt(text);
    if (!count || *count < 1 || *count > 64)
      throw Error(ErrorCode::kInvalidArgument, StrCat("--workers names '", text, "'; 1 to 64 can push"));
    counts.push_back(static_cast<uint32_t>(*count));
  }
  return counts;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  try {
    sluice::runtime::ParseProgramFlags(argc, argv,
                                       "close_bench: rounds that close on a shard, beside a plain loop",
                                       sluice::runtime::RowsOfMachine);
    if (FLAGS_parts < 1 || FLAGS_repeats < 1)
      throw sluice::Error(sluice::ErrorCode::kInvalidArgument, "--parts and --repeats are at least 1");
    for (const uint32_t workers : sluice::WorkersFlag())
      for (const bool sgd : {false, true}) std::cout << sluice::Measure({workers, sgd}) << std::endl;
    return 0;
  } catch (const sluice::Error& error) {
    std::cerr << "close_bench: " << error.what() << "\n";
    return 2;
  }
}
