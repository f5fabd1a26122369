// The script behind RunRounds: one state machine per worker, driven by the callbacks of its client.
//
// Each worker runs StartWorker (Init), Configure (SetOptimizer on worker 0), ReachBarrier, and then NextRound
// until all rounds are done. A round ends when every key's value has arrived and been checked (Landed); any
// difference or error ends the run through Mismatch. Everything runs on the one thread of the simulation, and
// all random choices come from the cluster's seed, so a run can be repeated exactly.
#include "sim/rounds.h"

#include <cmath>

#include "golden/optimizer/formulas.h"
#include "kvstore/rows/row_batch.h"
#include "kvstore/rows/row_frame.h"
#include "sim/values.h"

namespace sluice::testing {
namespace {

float Pushed(uint32_t worker, int round, int64_t element) {
  return static_cast<float>((worker + 1) * static_cast<uint64_t>(round + element % 7));
}

// Returns an element after `rounds` rounds of all workers.
double Expected(uint32_t workers, int rounds, int64_t element) {
  const double ranks = workers * (workers + 1) / 2.0;
  return ranks *
         (rounds * (rounds + 1) / 2.0 + static_cast<double>(rounds) * static_cast<double>(element % 7));
}

// Returns the value to which SetWeights sets an element before a round.
double SetTo(int round, int64_t element) {
  return 3.0 * round + static_cast<double>(element % 5);
}

// Returns the elements of a key of n elements after each round with kLamb; entry 0 is the start.
std::vector<std::vector<reference::Element>> LambRounds(uint32_t workers, int rounds, int64_t n) {
  const OptimizerConfig config{.kind = OptimizerKind::kLamb};
  std::vector<std::vector<reference::Element>> after(1,
                                                     std::vector<reference::Element>(static_cast<size_t>(n)));
  for (int round = 1; round <= rounds; ++round) {
    std::vector<double> sum(static_cast<size_t>(n));
    for (uint32_t w = 0; w < workers; ++w)
      for (int64_t i = 0; i < n; ++i) sum[static_cast<size_t>(i)] += Pushed(w, round, i);
    after.push_back(after.back());
    reference::UpdateArray(config, {.rate = Resolved(config).learning_rate, .t = round}, sum, after.back());
  }
  return after;
}

// The shape of the row-sparse key. Worker w pushes w + 1 as every element of the rows RowsPushed(w, round).
const Shape kTable = {300, 3};
constexpr size_t kRowBytes = 3 * sizeof(float);

std::vector<int64_t> RowsPushed(uint32_t worker, int round) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < (round + worker) % 8; ++i)
    rows.push_back((round * 11 + i * (worker + 1)) % kTable[0]);
  return rows;  // no row comes twice: at most 7 rows, worker + 1 apart, of 300
}
// Returns after each round, by row, the sum that all workers have pushed so far.
std::vector<std::vector<float>> RowSums(uint32_t workers, int rounds) {
  std::vector<std::vector<float>> after(1, std::vector<float>(static_cast<size_t>(kTable[0])));
  for (int round = 1; round <= rounds; ++round) {
    after.push_back(after.back());
    for (uint32_t w = 0; w < workers; ++w)
      for (const int64_t row : RowsPushed(w, round))
        after.back()[static_cast<size_t>(row)] += static_cast<float>(w + 1);
  }
  return after;
}

// Returns byte_ranges for the parts of a batch, one behind the other without gaps.
std::vector<ByteRange> Lay(const kvstore::RowBatch& batch, uint32_t parts, size_t bytes_each) {
  std::vector<ByteRange> byte_ranges;
  for (uint32_t part = 0; part < parts; ++part) {
    const size_t offset = byte_ranges.empty() ? 0 : byte_ranges.back().offset + byte_ranges.back().bytes;
    byte_ranges.push_back({offset, batch.RowsOf(part) * bytes_each});
  }
  return byte_ranges;
}

std::shared_ptr<Buffer> Floats(int64_t n) {
  return std::make_shared<Buffer>(static_cast<size_t>(n) * sizeof(float));
}

class Script {
 public:
  Script(SimCluster& cluster, const RoundsOptions& options)
      : cluster_(cluster),
        options_(options),
        rng_(DeriveSeed(cluster.options().seed, 99)),
        workers_(cluster.options().workers) {}

  RoundsResult Run() {
    RoundsResult result;
    const Time deadline = cluster_.network().now() + options_.deadline;
    const bool joined = cluster_.Join();
    if (joined) {
      for (uint32_t w = 0; w < workers_.size(); ++w) StartWorker(w);
      result.completed = cluster_.network().RunUntil(
                             [&] { return finished_ == workers_.size() || !mismatch_.empty(); }, deadline) &&
                         mismatch_.empty();
    }
    result.mismatch = mismatch_;
    result.history = cluster_.network().history_hash();
    if (!result.completed) result.log = cluster_.network().LogText();
    return result;
  }

 private:
  struct Worker {
    std::vector<uint32_t> keys;
    uint32_t row_key = 0;
    int round = 0;
    size_t waiting = 0;
    std::map<uint32_t, std::shared_ptr<Values>> values;  // by key; the destinations of the last pull
  };
  using Client = worker::Client;

  // Returns a callback that reports a failure of `what`.
  worker::Callback Succeeds(const char* what) {
    return [this, what](const Status& status) {
      if (!status) Mismatch(StrCat(what, " failed: ", status.failure().message));
    };
  }

  std::shared_ptr<worker::Operation> PushOfRows(uint32_t w, uint32_t key, const plan::RowPlaces& places,
                                                int round) {
    const kvstore::RowBatch batch = kvstore::MakeBatch(RowsPushed(w, round), places);
    auto byte_ranges = std::make_shared<worker::RowByteRanges>();
    byte_ranges->sources = Lay(batch, places.parts, kvstore::RowFrame::BytesOf(1, kRowBytes));
    const std::vector<float> row(3, static_cast<float>(w + 1));
    const auto at = [&row](uint32_t) { return reinterpret_cast<const std::byte*>(row.data()); };
    auto frames = std::make_shared<Buffer>(kvstore::RowFrame::BytesOf(batch.size(), kRowBytes));
    for (uint32_t part = 0; part < places.parts; ++part)
      kvstore::WriteFrame(batch, part, DType::kFloat32, 3, at,
                          frames->data() + byte_ranges->sources[part].offset);
    auto op = PushOf(key, Frame::Of(frames), Succeeds("push of rows"));
    op->rows = byte_ranges;
    return op;
  }

  // Pushes a few rows and pulls others, some of which no worker has pushed.
  void PushRows(uint32_t w, Client& client, Time now, transport::Network& network) {
    const uint32_t key = workers_[w].row_key;
    const int round = workers_[w].round;
    const plan::RowPlaces places = plan::PlacesOf(client.keys().entry(key));
    client.Submit(now, PushOfRows(w, key, places, round), network);
    std::vector<int64_t> wanted = RowsPushed((w + 1) % static_cast<uint32_t>(workers_.size()), round);
    wanted.push_back(kTable[0] - 1 - round % 50);
    const auto batch = std::make_shared<kvstore::RowBatch>(kvstore::MakeBatch(wanted, places));
    auto byte_ranges = std::make_shared<worker::RowByteRanges>();
    byte_ranges->sources = Lay(*batch, places.parts, sizeof(int64_t));
    byte_ranges->destinations = Lay(*batch, places.parts, kRowBytes);
    const auto rows = std::make_shared<Buffer>(batch->size() * kRowBytes);
    auto pull = OperationOf(worker::OpKind::kPullRows, key, [this, w, batch, rows](const Status& status) {
      RowsLanded(w, *batch, *rows, status);
    });
    pull->source = Frame::Copy(std::as_bytes(std::span(batch->ids)));
    pull->only().destination = {rows->bytes(), rows};
    pull->rows = byte_ranges;
    client.Submit(now, std::move(pull), network);
  }

  void RowsLanded(uint32_t w, const kvstore::RowBatch& batch, const Buffer& rows, const Status& status) {
    if (!status) return Mismatch(StrCat("worker ", w, ": ", status.failure().message));
    const auto round = static_cast<size_t>(workers_[w].round);
    if (row_sums_.empty()) row_sums_ = RowSums(static_cast<uint32_t>(workers_.size()), options_.rounds);
    for (size_t i = 0; i < 3 * batch.size() && options_.mode == wire::SyncMode::kSync; ++i) {
      const auto row = static_cast<size_t>(batch.ids[i / 3]);
      if (rows.as<float>()[i] == row_sums_[round][row]) continue;
      return Mismatch(StrCat("worker ", w, ", round ", round, ", row ", row, ": ", rows.as<float>()[i],
                             " in place of ", row_sums_[round][row]));
    }
    if (--workers_[w].waiting == 0) NextRound(w);
  }

  void StartWorker(uint32_t w) {
    cluster_.OnWorker(w, [this, w](Client& client, Time now, transport::Network& network) {
      std::vector<worker::InitArgs> keys;
      for (size_t k = 0; k < options_.key_elements.size(); ++k) {
        const int64_t n = options_.key_elements[k];
        auto zeros = Floats(n);
        std::memset(zeros->data(), 0, zeros->size());
        keys.push_back({{static_cast<int64_t>(k), DType::kFloat32, Shape({n})}, Frame::Of(zeros)});
      }
      if (options_.rows)
        keys.push_back({{static_cast<int64_t>(keys.size()), DType::kFloat32, kTable, 0, RowInit()}, Frame()});
      client.Init(
          now, options_.mode, std::move(keys), Time::max(),
          [this, w](const Result<std::vector<uint32_t>>& ids) {
            if (!ids) return Mismatch(StrCat("worker ", w, ": init failed: ", ids.failure().message));
            workers_[w].keys = ids.value();
            if (options_.rows) {
              workers_[w].row_key = workers_[w].keys.back();
              workers_[w].keys.pop_back();
            }
            cluster_.OnWorker(w,
                              [this, w](Client& c, Time t, transport::Network& n) { Configure(w, c, t, n); });
          },
          network);
    });
  }

  void Configure(uint32_t w, Client& client, Time now, transport::Network& network) {
    const auto on_set = [this, w](const Status& status) {
      if (!status) return Mismatch(StrCat("set optimiser failed: ", status.failure().message));
      ReachBarrier(w);
    };
    if (w != 0) return ReachBarrier(w);
    OptimizerConfig config;
    config.kind = options_.optimizer;
    client.requests().SetOptimizer(now, config, 0, Time::max(), on_set, network);
  }

  void ReachBarrier(uint32_t w) {
    cluster_.OnWorker(w, [this, w](Client& client, Time now, transport::Network& network) {
      wire::Barrier barrier;
      barrier.id = "start";
      client.requests().Barrier(
          now, barrier, Time::max(),
          [this, w](const Status& status) {
            if (!status) return Mismatch(StrCat("barrier failed: ", status.failure().message));
            NextRound(w);
          },
          network);
    });
  }

  void NextRound(uint32_t w) {
    if (workers_[w].round == options_.rounds) {
      ++finished_;
      return;
    }
    ++workers_[w].round;
    if (rng_.Chance(options_.cut_chance))
      cluster_.CutSomebody(rng_, std::chrono::milliseconds(10 + rng_.Below(1500)));
    cluster_.OnWorker(w, [this, w](Client& client, Time now, transport::Network& network) {
      PushRound(w, client, now, network);
    });
  }

  void PushRound(uint32_t w, Client& client, Time now, transport::Network& network) {
    Worker& worker = workers_[w];
    worker.waiting = worker.keys.size() + (options_.rows ? 1 : 0);
    if (IsSet(worker.round)) SetWeights(w, client, now, network);
    if (options_.rows) PushRows(w, client, now, network);
    if (options_.batched) return PushBatch(w, client, now, network);
    for (const uint32_t key : worker.keys) {
      const int64_t n = client.keys().entry(key).spec.shape.size();
      auto gradient = Floats(n);
      for (int64_t i = 0; i < n; ++i) gradient->as<float>()[i] = Pushed(w, worker.round, i);
      std::shared_ptr<Values>& out = worker.values[key];
      if (out == nullptr || options_.in_place)
        out = std::make_shared<Values>(options_.in_place ? gradient : Floats(n));
      const GradientCompression how = CompressionOf(w);
      auto push = PushOf(key, EncodedAs(how, Frame::Of(gradient), client.keys().entry(key)), nullptr);
      push->compression = how;
      push->priority = static_cast<int>(key);
      const worker::Destination destination =
          options_.in_place ? worker::Destination{gradient->bytes(), gradient}
                            : worker::Destination{.owner = out, .buffer_slot = out.get()};
      const auto landed = [this, w, out = out](const Status& status) { Landed(w, *out, status); };
      if (options_.push_pull) {
        push->kind = worker::OpKind::kPushPull;
        push->only().destination = destination;
        push->done = landed;
        client.Submit(now, std::move(push), network);
      } else {
        push->done = Succeeds("push");
        client.Submit(now, std::move(push), network);
        client.Submit(now, PullOf(key, destination, landed), network);
      }
    }
  }

  bool IsSet(int round) const { return options_.sets > 0 && round % options_.sets == 0; }

  void SetWeights(uint32_t w, Client& client, Time now, transport::Network& network) {
    const int round = workers_[w].round;
    if (w != 0 && (static_cast<uint32_t>(round / options_.sets) + w) % 2 == 0) return;
    for (const uint32_t key : workers_[w].keys) {
      const int64_t n = client.keys().entry(key).spec.shape.size();
      const auto weight = Floats(n);
      for (int64_t i = 0; i < n; ++i) weight->as<float>()[i] = static_cast<float>(SetTo(round, i));
      auto op = OperationOf(worker::OpKind::kSet, key, Succeeds("set"));
      if (w == 0) op->source = Frame::Of(weight);
      client.Submit(now, std::move(op), network);
    }
  }

  void PushBatch(uint32_t w, Client& client, Time now, transport::Network& network) {
    Worker& worker = workers_[w];
    auto push = worker::NewOperation(HeapAllocator(), worker::OpKind::kPush);
    std::vector<float> gradients;
    for (const uint32_t key : worker.keys) {
      const int64_t n = client.keys().entry(key).spec.shape.size();
      for (int64_t i = 0; i < n; ++i) gradients.push_back(Pushed(w, worker.round, i));
      std::shared_ptr<Values>& out = worker.values[key];
      out = std::make_shared<Values>(Floats(n));
      push->keys.push_back(
          {.key = key, .round = 0, .destination = {.bytes = out->RestoreOwnBuffer(), .owner = out}});
    }
    push->source = Frame::Copy(std::as_bytes(std::span(gradients)));
    const auto landed = [this, w](const Status& status) {
      for (const auto& [key, out] : std::map(workers_[w].values)) Landed(w, *out, status);
    };
    if (options_.push_pull) {
      push->kind = worker::OpKind::kPushPull;
      push->done = landed;
      return client.Submit(now, std::move(push), network);
    }
    auto pull = worker::NewOperation(HeapAllocator(), worker::OpKind::kPull);
    for (worker::PerKeyOp& key_op : push->keys)
      pull->keys.push_back({.key = key_op.key, .destination = std::exchange(key_op.destination, {})});
    push->done = Succeeds("push");
    pull->done = landed;
    client.Submit(now, std::move(push), network);
    client.Submit(now, std::move(pull), network);
  }

  GradientCompression CompressionOf(uint32_t w) const {
    constexpr Compression kTypes[] = {Compression::kNone, Compression::kFloat16, Compression::kTopK};
    return {.type = options_.compressed ? kTypes[w % 3] : Compression::kNone, .ratio = 1};
  }

  void Landed(uint32_t w, const Values& out, const Status& status) {
    if (!status) return Mismatch(StrCat("worker ", w, ": ", status.failure().message));
    const int round = workers_[w].round;
    const bool async = options_.mode == wire::SyncMode::kAsync;
    const auto n = static_cast<int64_t>(out.size() / sizeof(float));
    for (int64_t i = 0; i < n && !async; ++i) {
      const double expected = After(round, i, n),
                   tolerance = options_.optimizer == OptimizerKind::kLamb ? 1e-7 : 0;
      // A pull that was resent may be answered after another worker has set the weights for the next round.
      if (IsSet(round + 1) && out.data()[i] == SetTo(round + 1, i)) continue;
      if (std::abs(out.data()[i] - expected) > tolerance) {
        return Mismatch(StrCat("worker ", w, ", round ", round, ", element ", i, " of ", n, ": ",
                               out.data()[i], " in place of ", expected));
      }
    }
    if (async && round == options_.rounds) CheckOwnPushes(w, out);
    if (--workers_[w].waiting == 0) NextRound(w);
  }

  double After(int round, int64_t element, int64_t n) {
    const auto workers = static_cast<uint32_t>(workers_.size());
    if (options_.sets > 0 && round >= options_.sets) {
      const int set = round - round % options_.sets;
      return SetTo(set, element) + Expected(workers, round, element) - Expected(workers, set - 1, element);
    }
    if (options_.optimizer != OptimizerKind::kLamb) return Expected(workers, round, element);
    auto& rounds = lamb_[n];
    if (rounds.empty()) rounds = LambRounds(workers, options_.rounds, n);
    return rounds[static_cast<size_t>(round)][static_cast<size_t>(element)].weight;
  }

  // In async mode the value must contain all pushes of this worker, and at most all pushes of all workers.
  void CheckOwnPushes(uint32_t w, const Values& out) {
    const int rounds = options_.rounds;
    const double own = (w + 1) * (rounds * (rounds + 1) / 2.0);
    const double all = Expected(static_cast<uint32_t>(workers_.size()), rounds, 0);
    if (out.data()[0] < own || out.data()[0] > all) {
      Mismatch(StrCat("worker ", w, ": ", out.data()[0], " is not between its own ", own, " and everybody's ",
                      all));
    }
  }

  void Mismatch(const std::string& what) {
    if (mismatch_.empty()) mismatch_ = what;
  }

  SimCluster& cluster_;
  const RoundsOptions options_;
  Rng rng_;
  std::vector<Worker> workers_;
  std::map<int64_t, std::vector<std::vector<reference::Element>>> lamb_;  // by number of elements of a key
  std::vector<std::vector<float>> row_sums_;
  size_t finished_ = 0;
  std::string mismatch_;
};

}  // namespace

Frame EncodedAs(const GradientCompression& how, const Frame& gradient, const wire::KeyEntry& entry) {
  if (how.type == Compression::kNone) return gradient;
  std::vector<float> residual(gradient.size() / sizeof(float));
  std::vector<std::byte> encoded;
  for (const plan::Part& part : plan::PartsOf(entry)) {
    const auto length = static_cast<size_t>(part.length);
    const size_t at = encoded.size();
    encoded.resize(at + compression::EncodedBytes(how, DType::kFloat32, length));
    compression::Encode(how, DType::kFloat32, gradient.data() + part.offset * 4, length,
                        residual.data() + part.offset, encoded.data() + at);
  }
  return Frame::Copy(encoded);
}

RoundsResult RunRounds(SimCluster& cluster, const RoundsOptions& options) {
  return Script(cluster, options).Run();
}

}  // namespace sluice::testing
