// Recurrent layers over whole sequences: one layer in one direction, as one operation with several results.
//
// Forward leaves in `kept` what backward needs of every step. Backward is launched as two kernels: the first
// one computes the gradients of weights and initial states, so that these are pushed while the second one
// computes the input's gradient. Layers and programs call these functions; each call is recorded on the
// calling thread's tape.
#include "autograd/ops/common.h"

namespace sluice::ops {
namespace {

std::string_view NameOf(RecurrentKind kind) {
  switch (kind) {
    case RecurrentKind::kLstm:
      return "Lstm";
    case RecurrentKind::kGru:
      return "Gru";
    case RecurrentKind::kRnnTanh:
    case RecurrentKind::kRnnRelu:
      break;
  }
  return "Rnn";
}

void RequireLengths(std::string_view what, const NDArray& lengths, const NDArray& x) {
  RequireNumbers(what, "lengths", lengths);
  if (lengths.context() != x.context()) {
    ThrowInvalid(what, StrCat("the lengths are on ", lengths.context(), ", x on ", x.context(),
                              "; AsInContext or CopyTo moves data"));
  }
  if (lengths.shape() != Shape({x.shape()[0]}))
    ThrowInvalid(what,
                 StrCat("x ", x.shape(), " needs lengths [", x.shape()[0], "] and got ", lengths.shape()));
}

// Checks that all arrays fit each other and returns their extents. Throws Error(kInvalidArgument).
RecurrentShape ShapeOf(RecurrentKind kind, const NDArray& x, const RecurrentWeights& w,
                       const RecurrentState& begin, const RecurrentOptions& options) {
  const std::string_view what = NameOf(kind);
  RequireTogether(what, {&x, &w.i2h_weight, &w.h2h_weight},
                  {&w.i2h_bias, &w.h2h_bias, &begin.hidden, &begin.cell});
  const Shape &xs = x.shape(), &hs = w.h2h_weight.shape();
  RecurrentShape s{.kind = kind, .reverse = options.reverse};
  if (xs.ndim() != 3 || xs[1] == 0) ThrowInvalid(what, StrCat("needs x [batch, steps, in] and got ", xs));
  s.batch = xs[0];
  s.steps = xs[1];
  s.in = xs[2];
  if (hs.ndim() == 2) s.hidden = hs[1];
  if (hs != Shape({s.width(), s.hidden}) || s.hidden == 0)
    ThrowInvalid(what, StrCat("needs an h2h_weight [", s.gates(), " hidden, hidden] and got ", hs));
  if (w.i2h_weight.shape() != Shape({s.width(), s.in})) {
    ThrowInvalid(what, StrCat("x ", xs, " and h2h_weight ", hs, " need an i2h_weight ",
                              Shape({s.width(), s.in}), " and got ", w.i2h_weight.shape()));
  }
  for (const NDArray* bias : {&w.i2h_bias, &w.h2h_bias}) {
    if (bias->valid() && bias->shape() != Shape({s.width()}))
      ThrowInvalid(what, StrCat("needs biases [", s.width(), "] and got ", bias->shape()));
  }
  for (const NDArray* state : {&begin.hidden, &begin.cell}) {
    if (state->valid() && state->shape() != Shape({s.batch, s.hidden}))
      ThrowInvalid(what, StrCat("needs states ", Shape({s.batch, s.hidden}), " and got ", state->shape()));
  }
  if (begin.cell.valid() && kind != RecurrentKind::kLstm)
    ThrowInvalid(what, "has no cell state, and got one");
  if (!options.lengths.valid()) return s;
  RequireLengths(what, options.lengths, x);
  s.length_type = options.lengths.dtype();
  return s;
}

// RecurrentInputs as handles, whose addresses are known only when the kernel runs. Arrays that a kernel does
// not read are null.
struct InputData {
  Data<float> x = {}, i2h_weight = {}, h2h_weight = {}, i2h_bias = {}, h2h_bias = {}, hidden = {}, cell = {};
  Data<std::byte> lengths = {};

  operator RecurrentInputs() const {  // NOLINT(google-explicit-constructor): kernels take these
    return {x, i2h_weight, h2h_weight, i2h_bias, h2h_bias, hidden, cell, lengths};
  }
};

Data<std::byte> LengthsOrNull(const NDArray& lengths) {
  return lengths.valid() ? DataOf<std::byte>(lengths) : nullptr;
}

NDArray Floats(int64_t n, Context context) {
  return NDArray::Empty({n}, context);
}

// What backward needs of forward: its arrays, and the values in `kept` that its kernel left.
struct Recorded {
  RecurrentShape shape;
  NDArray x;
  RecurrentWeights weights;
  RecurrentState begin;
  NDArray lengths, kept;

  InputData Inputs() const {
    return {.x = DataOf(x),
            .i2h_weight = DataOf(weights.i2h_weight),
            .h2h_weight = DataOf(weights.h2h_weight),
            .i2h_bias = DataOrNull(weights.i2h_bias),
            .h2h_bias = DataOrNull(weights.h2h_bias),
            .hidden = DataOrNull(begin.hidden),
            .cell = DataOrNull(begin.cell),
            .lengths = LengthsOrNull(lengths)};
  }

  void Backward(const NDArray& grad, const autograd::FurtherGrads& further, std::vector<NDArray>& to) const {
    const Context context = x.context();
    const NDArray* const inputs[] = {&x,
                                     &weights.i2h_weight,
                                     &weights.h2h_weight,
                                     &weights.i2h_bias,
                                     &weights.h2h_bias,
                                     &begin.hidden,
                                     &begin.cell};
    for (size_t i = 0; i < to.size(); ++i) {
      if (Wanted(*inputs[i])) Target(to[i], inputs[i]->shape(), context);
    }
    const NDArray work = Floats(shape.backward_work_size(), context);
    // The weights' gradients come first: they are pushed while the rest of backward runs.
    LaunchOn("Recurrent backward (weights)", context,
             {x, weights.h2h_weight, lengths, grad, further[0], further[1], kept},
             {kept, work, to[1], to[2], to[3], to[4], to[5], to[6]},
             [s = shape,
              inputs = InputData{.x = DataOf(x),
                                 .h2h_weight = DataOf(weights.h2h_weight),
                                 .lengths = LengthsOrNull(lengths)},
              outputs = DataOrNull(grad), hidden = DataOrNull(further[0]), cell = DataOrNull(further[1]),
              pk = DataOf(kept), pw = DataOf(work), gi = DataOrNull(to[1]), gh = DataOrNull(to[2]),
              bi = DataOrNull(to[3]), bh = DataOrNull(to[4]), sh = DataOrNull(to[5]),
              sc = DataOrNull(to[6])](Kernels& k) {
               k.RecurrentBackward({.shape = s,
                                    .inputs = inputs,
                                    .heads = {outputs, hidden, cell},
                                    .kept = pk,
                                    .work = pw,
                                    .to = {gi, gh, bi, bh, sh, sc}});
             });
    if (!to[0].valid()) return;
    LaunchOn("Recurrent backward", context, {kept, work, weights.i2h_weight, lengths}, {work, to[0]},
             [s = shape,
              inputs = InputData{.i2h_weight = DataOf(weights.i2h_weight), .lengths = LengthsOrNull(lengths)},
              pk = DataOf(kept), pw = DataOf(work), gx = DataOf(to[0])](Kernels& k) {
               k.RecurrentBackwardInput({.shape = s, .inputs = inputs, .kept = pk, .work = pw, .grad_x = gx});
             });
  }
};

}  // namespace

RecurrentResult Recurrent(RecurrentKind kind, const NDArray& x, const RecurrentWeights& weights,
                          const RecurrentState& begin, const RecurrentOptions& options,
                          Arithmetic arithmetic) {
  RecurrentShape shape = ShapeOf(kind, x, weights, begin, options);
  shape.arithmetic = arithmetic;
  const Context context = x.context();
  const Shape state = {shape.batch, shape.hidden};
  RecurrentResult result{.outputs = NDArray::Empty({shape.batch, shape.steps, shape.hidden}, context),
                         .last = {.hidden = NDArray::Empty(state, context), .cell = {}}};
  if (kind == RecurrentKind::kLstm) result.last.cell = NDArray::Empty(state, context);
  const NDArray work = Floats(shape.work_size(), context);
  Recorded recorded{shape, x, weights, begin, options.lengths, Floats(shape.kept_size(), context)};
  LaunchOn(
      NameOf(kind), context,
      {x, weights.i2h_weight, weights.h2h_weight, weights.i2h_bias, weights.h2h_bias, begin.hidden,
       begin.cell, options.lengths},
      {result.outputs, result.last.hidden, result.last.cell, recorded.kept, work},
      [shape, inputs = recorded.Inputs(), outputs = DataOf(result.outputs),
       hidden = DataOf(result.last.hidden), cell = DataOrNull(result.last.cell), pk = DataOf(recorded.kept),
       pw = DataOf(work)](Kernels& k) {
        k.Recurrent(
            {.shape = shape, .inputs = inputs, .outputs = {outputs, hidden, cell}, .kept = pk, .work = pw});
      });
  autograd::RecordSeveral(
      result.outputs, {&result.last.hidden, &result.last.cell},
      {&x, &weights.i2h_weight, &weights.h2h_weight, &weights.i2h_bias, &weights.h2h_bias, &begin.hidden,
       &begin.cell},
      {NameOf(kind), {&x, IfWanted(x, weights.i2h_weight), &weights.h2h_weight, &options.lengths}},
      [recorded = std::move(recorded)](const NDArray& grad, const autograd::FurtherGrads& further,
                                       std::vector<NDArray>& to) { recorded.Backward(grad, further, to); });
  return result;
}

RecurrentResult Rnn(const NDArray& x, const RecurrentWeights& weights, RnnActivation activation,
                    const RecurrentState& begin, const RecurrentOptions& options) {
  const auto kind = activation == RnnActivation::kTanh ? RecurrentKind::kRnnTanh : RecurrentKind::kRnnRelu;
  return Recurrent(kind, x, weights, begin, options, Arithmetic::kFloat32);
}

RecurrentResult Lstm(const NDArray& x, const RecurrentWeights& weights, const RecurrentState& begin,
                     const RecurrentOptions& options) {
  return Recurrent(RecurrentKind::kLstm, x, weights, begin, options, Arithmetic::kFloat32);
}

RecurrentResult Gru(const NDArray& x, const RecurrentWeights& weights, const RecurrentState& begin,
                    const RecurrentOptions& options) {
  return Recurrent(RecurrentKind::kGru, x, weights, begin, options, Arithmetic::kFloat32);
}

NDArray SequenceLengths(const NDArray& ids, int64_t padding) {
  constexpr std::string_view kWhat = "SequenceLengths";
  if (!ids.valid()) ThrowNoArray(kWhat, "the array of ids");
  RequireNumbers(kWhat, "ids", ids);
  if (ids.shape().ndim() != 2) ThrowInvalid(kWhat, StrCat("needs ids [n, steps] and got ", ids.shape()));
  const int64_t n = ids.shape()[0], steps = ids.shape()[1];
  NDArray lengths = NDArray::Empty({n}, ids.context(), DType::kInt32);
  LaunchOn(kWhat, ids.context(), {ids}, {lengths},
           [type = ids.dtype(), pi = DataOf<std::byte>(ids), n, steps, value = static_cast<double>(padding),
            pl = DataOf<int32_t>(lengths)](Kernels& k) {
             k.SequenceLengths(
                 {.id_type = type, .ids = pi, .n = n, .steps = steps, .padding = value, .lengths = pl});
           });
  return lengths;
}

}  // namespace sluice::ops
