// Operators on arrays, conversion between contexts and types, and sums.
//
// Each function checks its arrays, launches its kernel on their context's stream, and is recorded on
// the calling thread's tape. The operators' results have the memory layout of the first operand
// (tensor/layout.h). In-place operators throw while the tape records and for what it has recorded,
// since Backward may need the values. Programs, layers and Backward call these functions.
#include "autograd/ops/common.h"

namespace sluice {

using ops::DataOf;
using ops::EmptyIn;
using ops::IfWanted;
using ops::ImageDataOf;
using ops::InLayout;
using ops::LaunchOn;
using ops::LayoutOf;
using ops::Record;
using ops::RequireTogether;
using ops::ThrowInvalid;
using ops::Wanted;

namespace {

NDArray Binary(std::string_view what, const NDArray& a, const NDArray& b,
               void (*run)(Kernels&, const float*, const float*, float*, int64_t)) {
  RequireTogether(what, {&a, &b});
  if (a.shape() != b.shape()) ThrowInvalid(what, StrCat("shapes ", a.shape(), " and ", b.shape(), " differ"));
  const ImageLayout layout = LayoutOf(a);
  const NDArray other = InLayout(b, layout);
  NDArray out = EmptyIn(layout, a.shape(), a.context());
  LaunchOn(what, a.context(), {a, other}, {out},
           [run, pa = ImageDataOf(a), pb = ImageDataOf(other), po = ImageDataOf(out),
            n = a.size()](Kernels& k) { run(k, pa, pb, po, n); });
  return out;
}

NDArray AffineOf(std::string_view what, const NDArray& a, float scale, float shift) {
  RequireTogether(what, {&a});
  NDArray out = EmptyIn(LayoutOf(a), a.shape(), a.context());
  LaunchOn(what, a.context(), {a}, {out},
           [pa = ImageDataOf(a), po = ImageDataOf(out), scale, shift, n = a.size()](Kernels& k) {
             k.Affine({.a = pa, .scale = scale, .shift = shift, .out = po, .n = n});
           });
  return out;
}

// Returns a / scalar, or scalar / a when `divides_scalar`.
NDArray ScalarQuotient(const NDArray& a, float scalar, bool divides_scalar) {
  RequireTogether("/", {&a});
  NDArray out = EmptyIn(LayoutOf(a), a.shape(), a.context());
  LaunchOn("/", a.context(), {a}, {out},
           [pa = ImageDataOf(a), po = ImageDataOf(out), scalar, divides_scalar, n = a.size()](Kernels& k) {
             const float* const values = pa;
             k.Divide({.a = divides_scalar ? nullptr : values,
                       .b = divides_scalar ? values : nullptr,
                       .scalar = scalar,
                       .out = po,
                       .n = n});
           });
  return out;
}

// Throws Error(kFailedPrecondition) while the tape records, or when `array` is a recorded result whose graph
// no Backward has freed.
void RequireNotRecorded(std::string_view what, const NDArray& array) {
  const internal::AutogradNode* node = array.node().get();
  if (!autograd::IsRecording() && (node == nullptr || node->is_variable || node->freed)) return;
  throw Error(ErrorCode::kFailedPrecondition,
              StrCat(what, " writes in place ",
                     autograd::IsRecording() ? "while the tape records" : "to what the tape has recorded",
                     ", which Backward may need as it was: compute a new array (a = a + b), or do it ",
                     autograd::IsRecording() ? "in a PauseScope" : "after Backward"));
}

// Calls run(kernels, a, b, n), which writes to a.
template <typename Run>
void InPlace(std::string_view what, NDArray& a, const NDArray& b, Run run) {
  RequireNotRecorded(what, a);
  RequireTogether(what, {&a, &b});
  if (a.shape() != b.shape()) ThrowInvalid(what, StrCat("shapes ", a.shape(), " and ", b.shape(), " differ"));
  LaunchOn(what, a.context(), {a, b}, {a}, [run, pa = DataOf(a), pb = DataOf(b), n = a.size()](Kernels& k) {
    run(k, pa.get(), pb.get(), n);
  });
}

// Calls run(kernels, a, n), which writes to a.
template <typename Run>
void InPlace(std::string_view what, NDArray& a, Run run) {
  RequireNotRecorded(what, a);
  RequireTogether(what, {&a});
  LaunchOn(what, a.context(), {a}, {a},
           [run, pa = DataOf(a), n = a.size()](Kernels& k) { run(k, pa.get(), n); });
}

}  // namespace

NDArray& NDArray::operator+=(const NDArray& other) {
  InPlace("+=", *this, other, [](Kernels& k, float* a, const float* b, int64_t n) {
    k.Combine({.alpha = 1, .a = a, .beta = 1, .b = b, .out = a, .n = n});
  });
  return *this;
}

NDArray& NDArray::operator-=(const NDArray& other) {
  InPlace("-=", *this, other, [](Kernels& k, float* a, const float* b, int64_t n) {
    k.Combine({.alpha = 1, .a = a, .beta = -1, .b = b, .out = a, .n = n});
  });
  return *this;
}

NDArray& NDArray::operator*=(const NDArray& other) {
  InPlace("*=", *this, other, [](Kernels& k, float* a, const float* b, int64_t n) {
    k.Multiply({.a = a, .b = b, .out = a, .n = n});
  });
  return *this;
}

NDArray& NDArray::operator/=(const NDArray& other) {
  InPlace("/=", *this, other, [](Kernels& k, float* a, const float* b, int64_t n) {
    k.Divide({.a = a, .b = b, .out = a, .n = n});
  });
  return *this;
}

NDArray& NDArray::operator+=(float scalar) {
  InPlace("+=", *this, [scalar](Kernels& k, float* a, int64_t n) {
    k.Affine({.a = a, .scale = 1, .shift = scalar, .out = a, .n = n});
  });
  return *this;
}

NDArray& NDArray::operator-=(float scalar) {
  InPlace("-=", *this, [scalar](Kernels& k, float* a, int64_t n) {
    k.Affine({.a = a, .scale = 1, .shift = -scalar, .out = a, .n = n});
  });
  return *this;
}

NDArray& NDArray::operator*=(float scalar) {
  InPlace("*=", *this, [scalar](Kernels& k, float* a, int64_t n) {
    k.Affine({.a = a, .scale = scalar, .shift = 0, .out = a, .n = n});
  });
  return *this;
}

NDArray& NDArray::operator/=(float scalar) {
  InPlace("/=", *this, [scalar](Kernels& k, float* a, int64_t n) {
    k.Divide({.a = a, .scalar = scalar, .out = a, .n = n});
  });
  return *this;
}

NDArray operator+(const NDArray& a, const NDArray& b) {
  NDArray out = Binary("+", a, b, [](Kernels& k, const float* x, const float* y, float* o, int64_t n) {
    k.Combine({.alpha = 1, .a = x, .beta = 1, .b = y, .out = o, .n = n});
  });
  Record(out, {&a, &b}, [](const NDArray& grad, std::vector<NDArray>& to) { to[0] = to[1] = grad; });
  return out;
}

NDArray operator-(const NDArray& a, const NDArray& b) {
  NDArray out = Binary("-", a, b, [](Kernels& k, const float* x, const float* y, float* o, int64_t n) {
    k.Combine({.alpha = 1, .a = x, .beta = -1, .b = y, .out = o, .n = n});
  });
  Record(out, {&a, &b}, [negates = Wanted(b)](const NDArray& grad, std::vector<NDArray>& to) {
    to[0] = grad;
    if (negates) to[1] = grad * -1.0f;
  });
  return out;
}

NDArray operator*(const NDArray& a, const NDArray& b) {
  NDArray out = Binary("*", a, b, [](Kernels& k, const float* x, const float* y, float* o, int64_t n) {
    k.Multiply({.a = x, .b = y, .out = o, .n = n});
  });
  Record(out, {&a, &b}, {"*", {IfWanted(b, a), IfWanted(a, b)}},
         [a, b](const NDArray& grad, std::vector<NDArray>& to) {
           if (Wanted(a)) to[0] = grad * b;
           if (Wanted(b)) to[1] = grad * a;
         });
  return out;
}

NDArray operator*(const NDArray& a, float scalar) {
  NDArray out = AffineOf("*", a, scalar, 0);
  Record(out, {&a}, [scalar](const NDArray& grad, std::vector<NDArray>& to) { to[0] = grad * scalar; });
  return out;
}

NDArray operator+(const NDArray& a, float scalar) {
  NDArray out = AffineOf("+", a, 1, scalar);
  Record(out, {&a}, [](const NDArray& grad, std::vector<NDArray>& to) { to[0] = grad; });
  return out;
}

NDArray operator/(const NDArray& a, const NDArray& b) {
  NDArray out = Binary("/", a, b, [](Kernels& k, const float* x, const float* y, float* o, int64_t n) {
    k.Divide({.a = x, .b = y, .out = o, .n = n});
  });
  Record(out, {&a, &b}, {"/", {&b, IfWanted(b, out)}},
         [a_wanted = Wanted(a), b, out](const NDArray& grad, std::vector<NDArray>& to) {
           if (a_wanted) to[0] = grad / b;
           if (Wanted(b)) to[1] = grad * out / b * -1.0f;
         });
  return out;
}

NDArray operator-(const NDArray& a, float scalar) {
  return a + -scalar;
}

NDArray operator-(float scalar, const NDArray& a) {
  NDArray out = AffineOf("-", a, -1, scalar);
  Record(out, {&a}, [](const NDArray& grad, std::vector<NDArray>& to) { to[0] = grad * -1.0f; });
  return out;
}

NDArray operator/(const NDArray& a, float scalar) {
  NDArray out = ScalarQuotient(a, scalar, /*divides_scalar=*/false);
  Record(out, {&a}, [scalar](const NDArray& grad, std::vector<NDArray>& to) { to[0] = grad / scalar; });
  return out;
}

NDArray operator/(float scalar, const NDArray& a) {
  NDArray out = ScalarQuotient(a, scalar, /*divides_scalar=*/true);
  Record(out, {&a}, {"/", {&a, &out}},
         [a, out](const NDArray& grad, std::vector<NDArray>& to) { to[0] = grad * out / a * -1.0f; });
  return out;
}

NDArray operator-(const NDArray& a) {
  return a * -1.0f;
}

NDArray NDArray::AsInContext(Context context) const {
  ops::RequireArray("AsInContext", "the array", *this);
  if (this->context() == context) return *this;
  NDArray moved = Empty(shape_, context, dtype());
  CopyTo(&moved);
  Record(moved, {this}, [from = this->context()](const NDArray& grad, std::vector<NDArray>& to) {
    to[0] = grad.AsInContext(from);
  });
  return moved;
}

NDArray NDArray::AsType(DType type) const {
  ops::RequireArray("AsType", "the array", *this);
  NDArray converted = Empty(shape_, context(), type);
  CopyTo(&converted);
  Record(converted, {this}, [from = dtype()](const NDArray& grad, std::vector<NDArray>& to) {
    if (to[0].valid()) return grad.CopyTo(&to[0]);
    to[0] = grad.AsType(from);
  });
  return converted;
}

namespace ops {

NDArray Sum(const NDArray& x) {
  RequireTogether("Sum", {&x});
  NDArray out = NDArray::Empty({1}, x.context());
  LaunchOn("Sum", x.context(), {x}, {out}, [px = DataOf(x), po = DataOf(out), n = x.size()](Kernels& k) {
    k.Sum({.a = px, .sums = po, .rows = 1, .columns = n});
  });
  Record(out, {&x}, [shape = x.shape()](const NDArray& grad, std::vector<NDArray>& to) {
    Target(to[0], shape, grad.context());
    LaunchOn("Sum backward", grad.context(), {grad}, {to[0]},
             [pg = DataOf(grad), gx = DataOf(to[0]), n = to[0].size()](Kernels& k) {
               k.FillRows({.values = pg, .out = gx, .rows = 1, .columns = n});
             });
  });
  return out;
}

NDArray InFloat32(const NDArray& x) {
  return !x.valid() || x.dtype() == DType::kFloat32 ? x : x.AsType(DType::kFloat32);
}

NDArray Mean(const NDArray& x) {
  RequireTogether("Mean", {&x});
  return Sum(x) * (1.0f / static_cast<float>(std::max<int64_t>(x.size(), 1)));
}

}  // namespace ops
}  // namespace sluice
