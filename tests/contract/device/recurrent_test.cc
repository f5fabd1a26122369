// The device contract of recurrent layers: results, gradients, and the lengths of sequences.
#include <gtest/gtest.h>

#include <limits>

#include "contract/device/device_test.h"
#include "contract/device/recurrent_reference.h"
#include "contract/device/within.h"

namespace sluice::testing {
namespace {

using Floats = std::vector<float>;

constexpr RecurrentKind kKinds[] = {RecurrentKind::kRnnTanh, RecurrentKind::kRnnRelu, RecurrentKind::kLstm,
                                    RecurrentKind::kGru};
constexpr const char* kNames[] = {"tanh", "relu", "lstm", "gru"};
constexpr DType kLengthTypes[] = {DType::kFloat32, DType::kInt32, DType::kInt64, DType::kUInt8};

// bfloat16 keeps 8 bits of a factor, which leaves errors of up to 0.02 here. Gradients through relu
// have jumps: where rounding moves a number over the threshold, a small layer loses a good part of one.
double ToleranceOf(const RecurrentShape& s, bool gradients) {
  if (s.arithmetic == Arithmetic::kFloat32) return kFloatTolerance;
  return gradients && s.kind == RecurrentKind::kRnnRelu ? 0.5 : 0.05;
}

// What of a call is given and wanted; the cell is so with the hidden state, in an LSTM alone.
struct Presence {
  bool lengths = true;
  bool i2h_bias = true, h2h_bias = true, hidden = true, cell = true;  // the inputs
  bool by_outputs = true, by_hidden = true, by_cell = true;           // the gradients by the results
  bool to_i2h_weight = true, to_h2h_weight = true, to_i2h_bias = true, to_h2h_bias = true, to_hidden = true,
       to_cell = true;  // the gradients that are wanted
};

class DeviceRecurrent : public DeviceTest {
 protected:
  // Tries the three methods, one after the other.
  void Try(const RecurrentShape& shape, const Presence& given) {
    SCOPED_TRACE(std::string(kNames[static_cast<size_t>(shape.kind)]) + (shape.reverse ? ", reverse" : "") +
                 ", batch " + std::to_string(shape.batch) + ", steps " + std::to_string(shape.steps) +
                 ", in " + std::to_string(shape.in) + ", hidden " + std::to_string(shape.hidden) +
                 ", lengths " + (given.lengths ? std::string(Name(shape.length_type)) : "none") +
                 (shape.arithmetic == Arithmetic::kBFloat16 ? ", bfloat16" : ""));
    Clear();
    const bool lstm = shape.kind == RecurrentKind::kLstm;
    const RecurrentCase c = MakeCase(shape, given);
    const int64_t states = shape.batch * shape.hidden;
    const RecurrentInputs inputs = Put(c, given);
    const RecurrentOutputs out{Output<float>(shape.steps * states), Output<float>(states),
                               lstm ? Output<float>(states) : nullptr};
    const RecurrentOutputGradients heads{OrNull(c.by_outputs), OrNull(c.by_hidden), OrNull(c.by_cell)};
    const RecurrentGradients to = MakeGradients(shape, given);
    float* const by_x = Output<float>(shape.batch * shape.steps * shape.in);
    float *const kept = Output<float>(shape.kept_size()), *const work = Output<float>(shape.work_size()),
                 *const backward_work = Output<float>(shape.backward_work_size()),
                 *const input_work = Output<float>(shape.backward_work_size());
    // Each method gets what it reads only.
    RecurrentInputs backward = inputs, backward_input{};
    backward.i2h_bias = backward.h2h_bias = nullptr;
    backward_input.i2h_weight = inputs.i2h_weight;
    backward_input.lengths = inputs.lengths;
    Run([&](Kernels& k) {
      k.Recurrent({.shape = shape, .inputs = inputs, .outputs = out, .kept = kept, .work = work});
      k.RecurrentBackward({.shape = shape,
                           .inputs = backward,
                           .heads = heads,
                           .kept = kept,
                           .work = backward_work,
                           .to = to});
      k.RecurrentBackwardInput(
          {.shape = shape, .inputs = backward_input, .kept = kept, .work = input_work, .grad_x = by_x});
    });
    RecurrentReference reference(c);
    ExpectResults(reference.Forward(), out, ToleranceOf(shape, /*gradients=*/false));
    ExpectGradients(reference.Backward(), to, by_x, ToleranceOf(shape, /*gradients=*/true));
  }

  template <typename T>
  void TrySequenceLengths(DType type, double padding) {
    for (const int64_t n : {0, 1, 5, 300})
      for (const int64_t steps : {0, 1, 2, 7, 40}) {
        SCOPED_TRACE(std::string(Name(type)) + ", " + std::to_string(n) + " x " + std::to_string(steps));
        Clear();
        std::vector<T> ids = Whole<T>(n * steps, 1, 100);
        std::vector<int32_t> expected;
        for (int64_t row = 0; row < n; ++row) {
          const int64_t length = Between(0, steps);
          for (int64_t i = 0; i < steps; ++i) {
            T& id = ids[static_cast<size_t>(row * steps + i)];
            if (i + 1 == length && static_cast<double>(id) == padding) id = 101;
            if (i >= length || (i + 1 < length && Below(3) == 0)) id = static_cast<T>(padding);
          }
          expected.push_back(static_cast<int32_t>(length));
        }
        const T* const put = Input(ids);
        int32_t* const lengths = Output<int32_t>(n);
        Run([&](Kernels& k) {
          k.SequenceLengths(
              {.id_type = type, .ids = put, .n = n, .steps = steps, .padding = padding, .lengths = lengths});
        });
        EXPECT_EQ(Read(lengths), expected);
      }
  }

  // Returns random lengths, with 0 and `steps` among them.
  std::vector<int64_t> MakeLengths(const RecurrentShape& s, bool given) {
    std::vector<int64_t> lengths(static_cast<size_t>(s.batch), s.steps);
    if (!given || s.batch == 0) return lengths;
    for (int64_t& length : lengths) length = Between(0, s.steps);
    lengths[static_cast<size_t>(Below(s.batch))] = s.steps;
    if (s.batch > 1) lengths[static_cast<size_t>(Below(s.batch))] = 0;
    return lengths;
  }
  Doubles Values(bool given, int64_t n, double bound = 1) {
    if (!given) return {};
    const Floats values = Uniform(n, -bound, bound);
    return {values.begin(), values.end()};
  }
  RecurrentCase MakeCase(const RecurrentShape& s, const Presence& given) {
    const bool lstm = s.kind == RecurrentKind::kLstm;
    const int64_t states = s.batch * s.hidden;
    const double bound = 1 / std::sqrt(static_cast<double>(s.hidden));
    return {.shape = s,
            .lengths = MakeLengths(s, given.lengths),
            .x = Values(true, s.batch * s.steps * s.in),
            .i2h_weight = Values(true, s.width() * s.in),
            .h2h_weight = Values(true, s.width() * s.hidden, bound),
            .i2h_bias = Values(given.i2h_bias, s.width()),
            .h2h_bias = Values(given.h2h_bias, s.width()),
            .hidden = Values(given.hidden, states),
            .cell = Values(given.cell && lstm, states),
            .by_outputs = Values(given.by_outputs, s.steps * states),
            .by_hidden = Values(given.by_hidden, states),
            .by_cell = Values(given.by_cell && lstm, states)};
  }

  static Floats ToFloats(const Doubles& values) { return {values.begin(), values.end()}; }
  const float* OrNull(const Doubles& values) { return values.empty() ? nullptr : Input(ToFloats(values)); }
  template <typename T>
  const void* Lengths(const std::vector<int64_t>& lengths) {
    std::vector<T> values;
    for (const int64_t length : lengths) values.push_back(static_cast<T>(length));
    return Input(values);
  }
  const void* Lengths(DType type, const std::vector<int64_t>& lengths) {
    if (type == DType::kFloat32) return Lengths<float>(lengths);
    if (type == DType::kInt32) return Lengths<int32_t>(lengths);
    return type == DType::kInt64 ? Lengths<int64_t>(lengths) : Lengths<uint8_t>(lengths);
  }
  // Brings the inputs to the device, with NaN in x behind the ends of the sequences.
  RecurrentInputs Put(const RecurrentCase& c, const Presence& given) {
    Floats x = ToFloats(c.x);
    const auto in = static_cast<size_t>(c.shape.in), steps = static_cast<size_t>(c.shape.steps);
    for (size_t i = 0; i < x.size(); ++i)
      if (static_cast<int64_t>(i / in % steps) >= c.lengths[i / in / steps])
        x[i] = std::numeric_limits<float>::quiet_NaN();
    return {Input(x),
            Input(ToFloats(c.i2h_weight)),
            Input(ToFloats(c.h2h_weight)),
            OrNull(c.i2h_bias),
            OrNull(c.h2h_bias),
            OrNull(c.hidden),
            OrNull(c.cell),
            given.lengths ? Lengths(c.shape.length_type, c.lengths) : nullptr};
  }
  RecurrentGradients MakeGradients(const RecurrentShape& s, const Presence& given) {
    const auto array = [&](bool wanted, int64_t n) { return wanted ? Output<float>(n) : nullptr; };
    const int64_t states = s.batch * s.hidden;
    return {array(given.to_i2h_weight, s.width() * s.in),
            array(given.to_h2h_weight, s.width() * s.hidden),
            array(given.to_i2h_bias, s.width()),
            array(given.to_h2h_bias, s.width()),
            array(given.to_hidden, states),
            array(given.to_cell && s.kind == RecurrentKind::kLstm, states)};
  }

  // Where gates are saturated, results as 1 - z are small and have the digits of 1 only; zeros are exact.
  static constexpr double kSaturated = 0.03;
  void Expect(const char* what, const float* actual, const Doubles& expected, double tolerance) {
    SCOPED_TRACE(what);
    if (actual == nullptr) return;
    Doubles terms = expected;
    if (NormOf(expected) > 0) terms.push_back(kSaturated);
    ExpectWithin(Read(actual), expected, terms, tolerance);
  }
  void ExpectResults(const RecurrentResults& expected, const RecurrentOutputs& out, double tolerance) {
    Expect("outputs", out.outputs, expected.outputs, tolerance);
    Expect("the last hidden state", out.hidden, expected.hidden, tolerance);
    Expect("the last cell", out.cell, expected.cell, tolerance);
  }
  void ExpectGradients(const RecurrentDerivatives& expected, const RecurrentGradients& to, const float* by_x,
                       double tolerance) {
    Expect("by x", by_x, expected.x, tolerance);
    Expect("by i2h_weight", to.i2h_weight, expected.i2h_weight, tolerance);
    Expect("by h2h_weight", to.h2h_weight, expected.h2h_weight, tolerance);
    Expect("by i2h_bias", to.i2h_bias, expected.i2h_bias, tolerance);
    Expect("by h2h_bias", to.h2h_bias, expected.h2h_bias, tolerance);
    Expect("by hidden", to.hidden, expected.hidden, tolerance);
    Expect("by cell", to.cell, expected.cell, tolerance);
  }
};
SLUICE_ON_EVERY_DEVICE(DeviceRecurrent);

bool Bit(int bits, int i) {
  return (bits >> i & 1) != 0;
}

// Returns the sum of the results, each times its gradient.
double WeightedSum(const RecurrentCase& c) {
  const RecurrentResults results = RecurrentReference(c).Forward();
  double sum = 0;
  for (size_t i = 0; i < c.by_outputs.size(); ++i) sum += c.by_outputs[i] * results.outputs[i];
  for (size_t i = 0; i < c.by_hidden.size(); ++i) sum += c.by_hidden[i] * results.hidden[i];
  for (size_t i = 0; i < c.by_cell.size(); ++i) sum += c.by_cell[i] * results.cell[i];
  return sum;
}

TEST(RecurrentReference, GradientsAreDifferencesOfItsResults) {
  Rng rng(1);
  const auto random = [&](size_t n) {
    Doubles values(n);
    for (double& value : values) value = rng.Uniform(-1, 1);
    return values;
  };
  for (const RecurrentKind kind : kKinds)
    for (const bool reverse : {false, true}) {
      SCOPED_TRACE(std::string(kNames[static_cast<size_t>(kind)]) + (reverse ? ", reverse" : ""));
      const RecurrentShape s{.kind = kind, .batch = 3, .steps = 4, .in = 2, .hidden = 3, .reverse = reverse};
      const auto width = static_cast<size_t>(s.width());
      RecurrentCase c{s,
                      {4, 0, 2},
                      random(24),
                      random(width * 2),
                      random(width * 3),
                      random(width),
                      random(width),
                      random(9),
                      {},
                      random(36),
                      random(9),
                      {}};
      if (kind == RecurrentKind::kLstm) c.cell = random(9), c.by_cell = random(9);
      const RecurrentDerivatives to = RecurrentReference(c).Backward();
      const std::pair<Doubles*, const Doubles*> all[] = {{&c.x, &to.x},
                                                         {&c.i2h_weight, &to.i2h_weight},
                                                         {&c.h2h_weight, &to.h2h_weight},
                                                         {&c.i2h_bias, &to.i2h_bias},
                                                         {&c.h2h_bias, &to.h2h_bias},
                                                         {&c.hidden, &to.hidden},
                                                         {&c.cell, &to.cell}};
      for (const auto& [values, gradients] : all)
        for (size_t i = 0; i < values->size(); ++i) {
          const double value = (*values)[i];
          (*values)[i] = value + 1e-5;
          const double above = WeightedSum(c);
          (*values)[i] = value - 1e-5;
          EXPECT_NEAR((above - WeightedSum(c)) / 2e-5, (*gradients)[i], 1e-7);
          (*values)[i] = value;
        }
    }
}

TEST_P(DeviceRecurrent, ResultsAndGradientsOfEveryKindShapeAndTypeOfLengths) {
  const RecurrentShape shapes[] = {
      {.batch = 1, .steps = 1, .in = 1, .hidden = 1}, {.batch = 1, .steps = 1, .in = 3, .hidden = 5},
      {.batch = 1, .steps = 7, .in = 4, .hidden = 3}, {.batch = 3, .steps = 1, .in = 5, .hidden = 2},
      {.batch = 2, .steps = 5, .in = 1, .hidden = 7}, {.batch = 5, .steps = 9, .in = 13, .hidden = 17}};
  for (RecurrentShape shape : shapes)
    for (const RecurrentKind kind : kKinds)
      for (const bool reverse : {false, true})
        for (const Arithmetic arithmetic : {Arithmetic::kFloat32, Arithmetic::kBFloat16}) {
          shape.kind = kind;
          shape.reverse = reverse;
          shape.arithmetic = arithmetic;
          Try(shape, {.lengths = false});
          for (const DType type : kLengthTypes) {
            shape.length_type = type;
            Try(shape, {});
          }
        }
}

TEST_P(DeviceRecurrent, ManySequencesAndUnits) {
  for (const RecurrentKind kind : kKinds)
    for (const bool lengths : {false, true})
      Try({.kind = kind, .batch = 67, .steps = 3, .in = 33, .hidden = 64, .reverse = lengths},
          {.lengths = lengths});
}

TEST_P(DeviceRecurrent, EveryCombinationOfInputsAndGradientsByTheResults) {
  for (const RecurrentKind kind : kKinds)
    for (int bits = 0; bits < 256; ++bits)
      Try({.kind = kind, .batch = 3, .steps = 4, .in = 2, .hidden = 3, .reverse = bits % 3 == 0},
          {.lengths = Bit(bits, 7),
           .i2h_bias = Bit(bits, 0),
           .h2h_bias = Bit(bits, 1),
           .hidden = Bit(bits, 2),
           .cell = Bit(bits, 3),
           .by_outputs = Bit(bits, 4),
           .by_hidden = Bit(bits, 5),
           .by_cell = Bit(bits, 6)});
}

TEST_P(DeviceRecurrent, EveryCombinationOfWantedGradients) {
  for (const RecurrentKind kind : kKinds)
    for (int bits = 0; bits < 128; ++bits)
      Try({.kind = kind, .batch = 3, .steps = 4, .in = 2, .hidden = 3, .reverse = bits % 3 == 0},
          {.lengths = Bit(bits, 6),
           .to_i2h_weight = Bit(bits, 0),
           .to_h2h_weight = Bit(bits, 1),
           .to_i2h_bias = Bit(bits, 2),
           .to_h2h_bias = Bit(bits, 3),
           .to_hidden = Bit(bits, 4),
           .to_cell = Bit(bits, 5)});
}

TEST_P(DeviceRecurrent, NoSequencesAndNoColumnsOfX) {
  for (const RecurrentKind kind : kKinds)
    for (const bool lengths : {false, true}) {
      Try({.kind = kind, .batch = 0, .steps = 3, .in = 2, .hidden = 4}, {.lengths = lengths});
      Try({.kind = kind, .batch = 3, .steps = 2, .in = 0, .hidden = 4}, {.lengths = lengths});
    }
}

TEST_P(DeviceRecurrent, SequenceLengthsCountUpToTheLastIdThatIsNoPadding) {
  TrySequenceLengths<float>(DType::kFloat32, -1);
  TrySequenceLengths<float>(DType::kFloat32, 0.5);
  TrySequenceLengths<int32_t>(DType::kInt32, 0);
  TrySequenceLengths<int64_t>(DType::kInt64, -2);
  TrySequenceLengths<uint8_t>(DType::kUInt8, 3);
}

TEST_P(DeviceRecurrent, RefusesALengthOutsideTheStepsAndNamesIt) {
  const std::tuple<DType, double, const char*> bad[] = {
      {DType::kInt32, -1, "length -1 "},
      {DType::kInt32, 6, "length 6 "},
      {DType::kInt64, -1, "length -1 "},
      {DType::kInt64, 4294967297.0, "length 4294967297 "},
      {DType::kUInt8, 255, "length 255 "},
      {DType::kFloat32, 6, "length 6 "},
      {DType::kFloat32, -0.5, "length -0.5 "},
      {DType::kFloat32, std::numeric_limits<double>::quiet_NaN(), "nan"},
      {DType::kFloat32, std::numeric_limits<double>::infinity(), "length inf "}};
  for (const auto& [type, length, named] : bad)
    for (const RecurrentKind kind : kKinds) {
      SCOPED_TRACE(std::string(Name(type)) + ", " + named);
      Clear();
      const RecurrentShape shape{
          .kind = kind, .batch = 4, .steps = 5, .in = 2, .hidden = 3, .length_type = type};
      const RecurrentCase c = MakeCase(shape, {.lengths = false});
      RecurrentInputs inputs = Put(c, {.lengths = false});
      if (type == DType::kFloat32) {
        inputs.lengths = Input<float>({5, 0, static_cast<float>(length), 1});
      } else {
        inputs.lengths = Lengths(type, {5, 0, static_cast<int64_t>(length), 1});
      }
      const RecurrentOutputs out{Output<float>(60), Output<float>(12),
                                 kind == RecurrentKind::kLstm ? Output<float>(12) : nullptr};
      float *const kept = Output<float>(shape.kept_size()), *const work = Output<float>(shape.work_size());
      const std::string message = ErrorOfRun(ErrorCode::kInvalidArgument, [&](Kernels& k) {
        k.Recurrent({.shape = shape, .inputs = inputs, .outputs = out, .kept = kept, .work = work});
      });
      EXPECT_NE(message.find(named), std::string::npos) << message;
    }
}

}  // namespace
}  // namespace sluice::testing
