// Helpers that the operations share: checks, targets of gradients, launching.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/ops.h"
#include "autograd/record.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/kernels.h"
#include "tensor/layout.h"
#include "tensor/storage.h"

namespace sluice::ops {

using autograd::Keeps;
using autograd::Record;
using internal::Data;
using internal::DataOf;
using internal::EmptyIn;
using internal::ImageDataOf;
using internal::InLayout;
using internal::LayoutOf;
using internal::RequireArray;
using internal::ThrowNoArray;

[[noreturn]] inline void ThrowInvalid(std::string_view what, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, StrCat(what, ": ", why));
}

// Throws unless all arrays are float32 on one context. Those in `optional` may be no array.
inline void RequireTogether(std::string_view what, std::initializer_list<const NDArray*> needed,
                            std::initializer_list<const NDArray*> optional = {}) {
  const NDArray* first = *needed.begin();
  const auto require = [&](const NDArray& array) {
    if (array.dtype() != DType::kFloat32)
      ThrowInvalid(
          what, StrCat("needs float32 and got ", Name(array.dtype()), "; AsType(DType::kFloat32) converts"));
    if (array.context() != first->context()) {
      ThrowInvalid(what, StrCat("one array is on ", first->context(), ", another on ", array.context(),
                                "; AsInContext or CopyTo moves data"));
    }
  };
  for (size_t i = 0; i < needed.size(); ++i) {
    const NDArray& array = *needed.begin()[i];
    if (!array.valid()) ThrowNoArray(what, StrCat("its array ", i + 1));
    require(array);
  }
  for (const NDArray* array : optional) {
    if (array->valid()) require(*array);
  }
}

// Returns the array that a backward writes to: `offered`, which becomes a new array if it was none.
inline NDArray& Target(NDArray& offered, const Shape& shape, Context context) {
  if (!offered.valid()) offered = NDArray::Empty(shape, context);
  return offered;
}

// As Target, for a backward that can only write images of one layout. Finish, called after the launch, copies
// them to `to` if that has another layout.
class ImageTarget {
 public:
  ImageTarget(NDArray& to, ImageLayout layout, const Shape& shape, Context context)
      : to_(to), images_(to.valid() && LayoutOf(to) == layout ? to : EmptyIn(layout, shape, context)) {}
  const NDArray& images() const { return images_; }
  Data<float> data() const { return ImageDataOf(images_); }
  void Finish() {
    if (!to_.valid()) {
      to_ = images_;
    } else if (!images_.SharesStorage(to_)) {
      images_.CopyTo(&to_);
    }
  }

 private:
  NDArray& to_;
  const NDArray images_;
};

inline Data<float> DataOrNull(const NDArray& array) {
  return array.valid() ? DataOf(array) : nullptr;
}

// Writes the gradient of an activation's input to `to`. `kept` is the activation's output if
// shape.FromOutput(), else its input.
void ActivateBackward(const ActivationShape& shape, const NDArray& kept, const NDArray& grad, NDArray& to);

// Throws unless `array` has a type that kernels read as whole numbers (ids, lengths).
inline void RequireNumbers(std::string_view what, std::string_view which, const NDArray& array) {
  RequireArray(what, which, array);
  const DType type = array.dtype();
  if (type != DType::kFloat32 && type != DType::kInt32 && type != DType::kInt64 && type != DType::kUInt8)
    ThrowInvalid(what, StrCat("needs ", which, " of float32, int32, int64 or uint8 and got ", Name(type)));
}

inline void LaunchOn(Label what, Context context, const internal::ArrayRefs& inputs,
                     const internal::ArrayRefs& outputs, internal::KernelWork work) {
  internal::Launch(std::move(what), context, inputs, outputs, std::move(work));
}

inline bool Wanted(const NDArray& array) {
  return array.valid() && array.node() != nullptr;
}

// For Keeps: `array` if only the gradient of `other` needs it and that is wanted, else null.
inline const NDArray* IfWanted(const NDArray& other, const NDArray& array) {
  return Wanted(other) ? &array : nullptr;
}

}  // namespace sluice::ops
