// The device contract of embeddings: rows by their ids, means over bags, the gradients of both, and the
// lengths of sequences of ids; for every type of ids, with padding and without. Ids that are no rows are
// refused. Gradients are overwritten: rows that no id names get zeros.
#include <gtest/gtest.h>

#include <limits>

#include "contract/device/device_test.h"

namespace sluice::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Calls run(Id{}) for each type that ids may have.
template <typename Run>
void ForIdTypes(Run&& run) {
  const auto traced = [&](auto id) {
    SCOPED_TRACE(std::string(Name(DTypeOf<decltype(id)>::value)));
    run(id);
  };
  traced(float{});
  traced(int32_t{});
  traced(int64_t{});
  traced(uint8_t{});
}

struct Case {
  int64_t n, rows, columns;
  int64_t padding = -1;
  int64_t low = 0, high = -1;  // the ids' range; a negative `high` counts from `rows`
};

std::string NameOf(const Case& c) {
  return std::to_string(c.n) + " ids, weight " + std::to_string(c.rows) + " x " + std::to_string(c.columns) +
         ", padding " + std::to_string(c.padding);
}

const Case kCases[] = {
    {.n = 0, .rows = 0, .columns = 4},
    {.n = 5, .rows = 3, .columns = 0},
    {.n = 0, .rows = 5, .columns = 4},
    {.n = 1, .rows = 1, .columns = 1},
    {.n = 1, .rows = 1, .columns = 1, .padding = 0},
    {.n = 7, .rows = 5, .columns = 3},
    {.n = 64, .rows = 10, .columns = 16, .padding = 0},
    {.n = 1000, .rows = 3, .columns = 65, .padding = 2},                      // many of each id
    {.n = 300, .rows = 200, .columns = 33, .padding = 199},                   // the last row
    {.n = 40, .rows = 6, .columns = 129, .padding = 3, .low = 3, .high = 3},  // all are padding
    {.n = 40, .rows = 6, .columns = 31, .low = 5, .high = 5},                 // all are one row
    {.n = 50, .rows = 1000, .columns = 8, .padding = 7, .high = 255},
    {.n = 5000, .rows = 250, .columns = 64, .padding = 100},  // work for several threads
    {.n = 3, .rows = 4, .columns = 40'003},
};

class DeviceEmbedding : public DeviceTest {
 protected:
  // Returns `n` ids for a case.
  template <typename Id>
  std::vector<Id> IdsOf(const Case& c, int64_t n) {
    return Whole<Id>(n, c.low, c.high < 0 ? c.rows + c.high : c.high);
  }
  // Returns a weight whose row of padding is NaN, since it counts as zeros whatever it holds.
  std::vector<float> WeightOf(const Case& c) {
    std::vector<float> weight = Uniform(c.rows * c.columns);
    if (c.padding < 0) return weight;
    const auto begin = weight.begin() + c.padding * c.columns;
    std::fill(begin, begin + c.columns, kNaN);
    return weight;
  }
  template <typename Id>
  static EmbeddingShape ShapeOf(const Case& c) {
    return {DTypeOf<Id>::value, c.rows, c.columns, c.padding};
  }
};
SLUICE_ON_EVERY_DEVICE(DeviceEmbedding);

TEST_P(DeviceEmbedding, GivesTheRowsOfIdsBitByBit) {
  ForIdTypes([&]<typename Id>(Id) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(NameOf(c));
      Clear();
      const std::vector<Id> ids = IdsOf<Id>(c, c.n);
      const std::vector<float> weight = WeightOf(c);
      const Id* const pi = Input(ids);
      const float* const pw = Input(weight);
      float* const out = Output<float>(c.n * c.columns);
      Run([&](Kernels& k) {
        k.Embedding({.shape = ShapeOf<Id>(c), .ids = pi, .n = c.n, .weight = pw, .out = out});
      });
      std::vector<float> expected;
      for (const Id id : ids)
        for (int64_t j = 0; j < c.columns; ++j) {
          const auto row = static_cast<int64_t>(id);
          expected.push_back(row == c.padding ? 0 : weight[static_cast<size_t>(row * c.columns + j)]);
        }
      EXPECT_TRUE(Read(out) == expected) << "other rows";
    }
  });
}

TEST_P(DeviceEmbedding, BackwardAddsUpTheGradientsOfEachId) {
  ForIdTypes([&]<typename Id>(Id) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(NameOf(c));
      Clear();
      const std::vector<Id> ids = IdsOf<Id>(c, c.n);
      const std::vector<float> grad = Uniform(c.n * c.columns);
      const Id* const pi = Input(ids);
      const float* const pg = Input(grad);
      float* const grad_weight = Output<float>(c.rows * c.columns);
      Run([&](Kernels& k) {
        k.EmbeddingBackward(
            {.shape = ShapeOf<Id>(c), .ids = pi, .n = c.n, .grad = pg, .grad_weight = grad_weight});
      });
      std::vector<double> expected(static_cast<size_t>(c.rows * c.columns));
      for (size_t i = 0; i < grad.size(); ++i) {
        const auto columns = static_cast<size_t>(c.columns);
        const auto row = static_cast<int64_t>(ids[i / columns]);
        if (row != c.padding) expected[static_cast<size_t>(row) * columns + i % columns] += grad[i];
      }
      ExpectNear(Read(grad_weight), expected);
    }
  });
}

// Bags of the cases' ids. Where there is padding, the middle bag is all padding, and others end with some.
class DeviceEmbeddingBag : public DeviceEmbedding {
 protected:
  // Calls run(Id{}, case, steps, ids of n bags, the ids of each bag that are not padding).
  template <typename Run>
  void ForBags(Run&& run) {
    ForIdTypes([&]<typename Id>(Id id_type) {
      for (const Case& c : kCases)
        for (const int64_t steps : {0, 1, 3, 20}) {
          if (c.n * steps * c.columns > 400'000) continue;
          SCOPED_TRACE(NameOf(c) + " in each of " + std::to_string(steps) + " steps");
          Clear();
          std::vector<Id> ids = IdsOf<Id>(c, c.n * steps);
          if (c.padding >= 0) PadSome(c, steps, &ids);
          std::vector<std::vector<int64_t>> bags(static_cast<size_t>(c.n));
          for (size_t i = 0; i < ids.size(); ++i) {
            const auto row = static_cast<int64_t>(ids[i]);
            if (row != c.padding) bags[i / static_cast<size_t>(steps)].push_back(row);
          }
          run(id_type, c, steps, ids, bags);
        }
    });
  }

 private:
  // Makes all ids of the middle bag padding, and the last ids of others.
  template <typename Id>
  void PadSome(const Case& c, int64_t steps, std::vector<Id>* ids) {
    for (int64_t bag = 0; bag < c.n; ++bag) {
      const int64_t first = bag == c.n / 2 ? 0 : Between(0, steps);
      const auto begin = ids->begin() + bag * steps;
      std::fill(begin + first, begin + steps, static_cast<Id>(c.padding));
    }
  }
};
SLUICE_ON_EVERY_DEVICE(DeviceEmbeddingBag);

TEST_P(DeviceEmbeddingBag, IsTheMeanOfTheRowsThatAreNotPadding) {
  ForBags([&]<typename Id>(Id, const Case& c, int64_t steps, const std::vector<Id>& ids, const auto& bags) {
    const std::vector<float> weight = WeightOf(c);
    const Id* const pi = Input(ids);
    const float* const pw = Input(weight);
    float* const out = Output<float>(c.n * c.columns);
    Run([&](Kernels& k) {
      k.EmbeddingBag(
          {.shape = ShapeOf<Id>(c), .ids = pi, .n = c.n, .steps = steps, .weight = pw, .out = out});
    });
    std::vector<double> expected;
    for (const std::vector<int64_t>& bag : bags)
      for (int64_t j = 0; j < c.columns; ++j) {
        double sum = 0;
        for (const int64_t row : bag) sum += weight[static_cast<size_t>(row * c.columns + j)];
        expected.push_back(bag.empty() ? 0 : sum / static_cast<double>(bag.size()));
      }
    ExpectNear(Read(out), expected);
  });
}

TEST_P(DeviceEmbeddingBag, BackwardSharesTheGradientOutAmongTheRowsThatAreNotPadding) {
  ForBags([&]<typename Id>(Id, const Case& c, int64_t steps, const std::vector<Id>& ids, const auto& bags) {
    const std::vector<float> grad = Uniform(c.n * c.columns);
    const Id* const pi = Input(ids);
    const float* const pg = Input(grad);
    float* const grad_weight = Output<float>(c.rows * c.columns);
    Run([&](Kernels& k) {
      k.EmbeddingBagBackward({.shape = ShapeOf<Id>(c),
                              .ids = pi,
                              .n = c.n,
                              .steps = steps,
                              .grad = pg,
                              .grad_weight = grad_weight});
    });
    std::vector<double> expected(static_cast<size_t>(c.rows * c.columns));
    const auto columns = static_cast<size_t>(c.columns);
    for (size_t i = 0; i < bags.size(); ++i)
      for (const int64_t row : bags[i])
        for (size_t j = 0; j < columns; ++j)
          expected[static_cast<size_t>(row) * columns + j] +=
              grad[i * columns + j] / static_cast<double>(bags[i].size());
    ExpectNear(Read(grad_weight), expected);
  });
}

class DeviceIds : public DeviceTest {
 protected:
  static constexpr int64_t kN = 12, kSteps = 3, kRows = 7, kColumns = 5;

  // Expects all four kernels to refuse `bad` among valid ids, wherever it stands and whatever is padding, and
  // to name it as `text`; then to accept valid ids again.
  template <typename Id>
  void ExpectRefused(Id bad, const std::string& text) {
    SCOPED_TRACE("id " + text);
    for (const int64_t padding : {-1, 0})
      for (const size_t place : {size_t{0}, size_t{17}, size_t{kN * kSteps - 1}}) {
        SCOPED_TRACE("at place " + std::to_string(place) + ", padding " + std::to_string(padding));
        Clear();
        std::vector<Id> ids = Whole<Id>(kN * kSteps, 0, kRows - 1);
        const Id* const good = Input(ids);
        ids[place] = bad;
        const Id* const wrong = Input(ids);
        const EmbeddingShape s = {DTypeOf<Id>::value, kRows, kColumns, padding};
        for (int kernel = 0; kernel < 4; ++kernel) {
          const std::string message =
              ErrorOfRun(ErrorCode::kInvalidArgument, [&](Kernels& k) { Call(k, kernel, s, wrong); });
          EXPECT_NE(message.find(text), std::string::npos) << "kernel " << kernel << ": " << message;
        }
        for (int kernel = 0; kernel < 4; ++kernel) Run([&](Kernels& k) { Call(k, kernel, s, good); });
      }
  }

 private:
  // Calls one of the four kernels with kN * kSteps ids, in bags or not.
  void Call(Kernels& k, int kernel, const EmbeddingShape& s, const void* ids) {
    constexpr int64_t kAll = kN * kSteps;
    if (kernel == 0) k.Embedding({.shape = s, .ids = ids, .n = kAll, .weight = weight_, .out = out_});
    if (kernel == 1)
      k.EmbeddingBackward({.shape = s, .ids = ids, .n = kAll, .grad = grad_, .grad_weight = grad_weight_});
    if (kernel == 2)
      k.EmbeddingBag({.shape = s, .ids = ids, .n = kN, .steps = kSteps, .weight = weight_, .out = out_});
    if (kernel == 3)
      k.EmbeddingBagBackward(
          {.shape = s, .ids = ids, .n = kN, .steps = kSteps, .grad = grad_, .grad_weight = grad_weight_});
  }
  // Drops all arrays and makes those that all four kernels take.
  void Clear() {
    DeviceTest::Clear();
    weight_ = Input(Uniform(kRows * kColumns));
    grad_ = Input(Uniform(kN * kSteps * kColumns));
    out_ = Output<float>(kN * kSteps * kColumns);
    grad_weight_ = Output<float>(kRows * kColumns);
  }

  const float *weight_ = nullptr, *grad_ = nullptr;
  float *out_ = nullptr, *grad_weight_ = nullptr;
};
SLUICE_ON_EVERY_DEVICE(DeviceIds);

TEST_P(DeviceIds, IdsThatAreNoRowsAreRefusedByName) {
  const auto refused = [&]<typename Id>(Id bad) { ExpectRefused(bad, std::to_string(bad)); };
  for (const int32_t bad : {-1, -2, 7, 8, 1 << 20, INT32_MAX, INT32_MIN}) refused(bad);
  // The lower 32 bits of some of these are a row.
  constexpr int64_t k32 = int64_t{1} << 32;
  for (const int64_t bad : {int64_t{-1}, int64_t{7}, k32, k32 + 3, -k32, INT64_MAX, INT64_MIN}) refused(bad);
  for (const uint8_t bad : {uint8_t{7}, uint8_t{128}, uint8_t{255}}) refused(bad);
}

TEST_P(DeviceIds, FloatsThatAreNoWholeNumbersOrNoRowsAreRefusedByName) {
  for (const auto& [bad, text] : {std::pair{-1.0f, "-1"},
                                  {7.0f, "7"},
                                  {0.5f, "0.5"},
                                  {6.5f, "6.5"},
                                  {-0.25f, "-0.25"},
                                  {65536.0f, "65536"},
                                  {kInf, "inf"},
                                  {-kInf, "-inf"},
                                  {kNaN, "nan"}})
    ExpectRefused(bad, text);
}

class DeviceSequenceLengths : public DeviceTest {};
SLUICE_ON_EVERY_DEVICE(DeviceSequenceLengths);

// Paddings that a type of ids cannot hold end no sequence, though their lower bits may be an id.
TEST_P(DeviceSequenceLengths, ReachToTheLastIdThatIsNotPadding) {
  ForIdTypes([&]<typename Id>(Id) {
    for (const double padding : {0.0, 3.0, -1.0, 0.5, 255.0, 256.0, 0x1p32, 16777216.0})
      for (const int64_t n : {0, 1, 5, 300})
        for (const int64_t steps : {0, 1, 2, 7, 40, 129}) {
          SCOPED_TRACE(std::to_string(n) + " x " + std::to_string(steps) + ", padding " +
                       std::to_string(padding));
          Clear();
          std::vector<Id> ids = Whole<Id>(n * steps, 0, 3);
          for (int64_t row = 0; row < n; ++row) {
            const auto begin = ids.begin() + row * steps;
            const auto filler = std::is_floating_point_v<Id> ? static_cast<Id>(padding)
                                                             : static_cast<Id>(static_cast<int64_t>(padding));
            std::fill(begin + Between(0, steps), begin + steps, filler);
          }
          const Id* const pi = Input(ids);
          int32_t* const lengths = Output<int32_t>(n);
          Run([&](Kernels& k) {
            k.SequenceLengths({.id_type = DTypeOf<Id>::value,
                               .ids = pi,
                               .n = n,
                               .steps = steps,
                               .padding = padding,
                               .lengths = lengths});
          });
          std::vector<int32_t> expected(static_cast<size_t>(n));
          for (size_t i = 0; i < ids.size(); ++i) {
            const auto s = static_cast<size_t>(steps);
            if (static_cast<double>(ids[i]) != padding) expected[i / s] = static_cast<int32_t>(i % s) + 1;
          }
          EXPECT_EQ(Read(lengths), expected);
        }
  });
}

}  // namespace
}  // namespace sluice::testing
