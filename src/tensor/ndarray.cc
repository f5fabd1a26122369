// The methods of NDArray that make, copy and fill arrays; operations with gradients are in
// autograd/ops. Each method checks its arguments on the caller's thread, throws
// Error(kInvalidArgument) or Error(kFailedPrecondition) there, and launches its kernel on the
// context's stream (storage.h). ToVector, SetBytes and WaitToRead wait for it.
#include "sluice/ndarray.h"

#include <cstring>

#include "base/pool_allocator.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/kernels.h"
#include "tensor/storage.h"

namespace sluice {

using internal::DataOf;
using internal::Launch;
using internal::LaunchOn;

namespace {

[[noreturn]] void ThrowInvalid(std::string_view what, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, StrCat(what, ": ", why));
}

[[noreturn]] void ThrowNoArray(const Shape& shape, Context context, DType dtype, ErrorCode code,
                               std::string_view why) {
  throw Error(code, StrCat("an array ", shape, " of ", Name(dtype), " on ", context, ": ", why));
}

// Returns the bytes of an array of that shape and type.
size_t BytesOf(const Shape& shape, Context context, DType dtype) {
  if (SizeOf(dtype) == 0)
    ThrowInvalid("NDArray", StrCat("there is no DType of number ", static_cast<int>(dtype)));
  size_t bytes = 0;
  if (__builtin_mul_overflow(shape.size(), SizeOf(dtype), &bytes)) {
    ThrowNoArray(shape, context, dtype, ErrorCode::kResourceExhausted,
                 "out of memory: no 64-bit number holds its bytes");
  }
  return bytes;
}

}  // namespace

NDArray NDArray::Empty(const Shape& shape, Context context, DType dtype) {
  const size_t bytes = BytesOf(shape, context, dtype);
  std::shared_ptr<Device> device = Devices::Default()->Get(context);
  const MemoryOf<internal::Storage> memory(device->records());
  NDArray array;
  try {
    array.storage_ =
        std::allocate_shared<internal::Storage>(memory, context, dtype, bytes, std::move(device));
  } catch (const Error& error) {
    ThrowNoArray(shape, context, dtype, error.code(), error.what());
  }
  array.shape_ = shape;
  return array;
}

NDArray NDArray::Wrap(void* data, const Shape& shape, std::shared_ptr<const void> owner, DType dtype,
                      Context context) {
  const size_t bytes = BytesOf(shape, context, dtype);
  if (context.kind == DeviceKind::kGpu)
    ThrowInvalid("NDArray::Wrap", StrCat("memory on ", context, " is not wrapped; only the host's is"));
  if (data == nullptr && bytes > 0)
    ThrowInvalid("NDArray::Wrap", StrCat("the memory for ", Name(dtype), " ", shape, " is a null pointer"));
  if (reinterpret_cast<uintptr_t>(data) % SizeOf(dtype) != 0) {
    ThrowInvalid("NDArray::Wrap", StrCat("the memory for ", Name(dtype), " ", shape, " is not aligned to ",
                                         SizeOf(dtype), " bytes; copy it by NDArray::From"));
  }
  std::shared_ptr<Device> device = Devices::Default()->Get(context);
  NDArray array;
  array.storage_ =
      std::make_shared<internal::Storage>(context, dtype, MutableBytes(static_cast<std::byte*>(data), bytes),
                                          std::move(owner), std::move(device));
  array.shape_ = shape;
  return array;
}

NDArray::NDArray(const Shape& shape, Context context, DType dtype) : NDArray(Empty(shape, context, dtype)) {
  Fill(0);
}

DType NDArray::dtype() const {
  internal::RequireArray("dtype", "the array", *this);
  return storage_->dtype;
}

Context NDArray::context() const {
  internal::RequireArray("context", "the array", *this);
  return storage_->context;
}

void NDArray::WaitToRead() const {
  if (valid()) storage_->LastWrite().Wait();
}

float NDArray::ToScalar() const {
  internal::RequireArray("ToScalar", "the array", *this);
  if (size() != 1) ThrowInvalid("ToScalar", StrCat("shape ", shape_, " has ", size(), " elements"));
  return ToVector<float>()[0];
}

NDArray internal::MakeFrom(std::span<const std::byte> bytes, size_t count, DType dtype, const Shape& shape,
                           Context context) {
  if (count != static_cast<size_t>(shape.size())) {
    ThrowInvalid("NDArray::From",
                 StrCat(count, " values do not fill shape ", shape, " of ", shape.size(), " elements"));
  }
  NDArray array = NDArray::Empty(shape, context, dtype);
  array.SetBytes(bytes);
  return array;
}

void internal::ThrowNoInt64(const std::string& value) {
  ThrowInvalid("NDArray::From", StrCat(value, " is beyond int64, which is the type of the array"));
}

void internal::CopyToHost(const NDArray& array, DType wanted, std::span<std::byte> out) {
  RequireArray("ToVector", "the array", array);
  if (array.dtype() != wanted)
    ThrowInvalid("ToVector", StrCat("the array holds ", Name(array.dtype()), ", not ", Name(wanted)));
  if (array.context().kind != DeviceKind::kGpu) {  // copies on this thread, so that the stream can go on
    const auto from = DataOf<std::byte>(array);
    array.WaitToRead();
    if (!out.empty()) std::memcpy(out.data(), from.get(), out.size());
    return;
  }
  LaunchOn(array.storage()->device->to_host(), "copy to host", {array}, {},
           [from = DataOf<std::byte>(array), out](Kernels& k) {
             k.Copy({.from = from, .to = out.data(), .bytes = out.size()});
           })
      .Wait();
}

namespace internal {
namespace {

// Whether the kernels of either context can reach the memory of both.
bool ShareMemory(Context a, Context b) {
  return a == b || (a.kind != DeviceKind::kGpu && b.kind != DeviceKind::kGpu);
}

// Returns the stream that copies between two storages: between a GPU and the host, that of the GPU for the
// direction; else the destination's.
DeviceStream StreamForCopy(const Storage& from, const Storage& to) {
  const bool from_gpu = from.context.kind == DeviceKind::kGpu, to_gpu = to.context.kind == DeviceKind::kGpu;
  if (from_gpu && !to_gpu) return from.device->to_host();
  if (to_gpu && !from_gpu) return to.device->from_host();
  return {to.device->stream(), to.device->kernels()};
}

}  // namespace
}  // namespace internal

NDArray internal::ViewOf(const NDArray& array, const Shape& shape, int64_t begin) {
  NDArray view = array;
  view.shape_ = shape;
  view.offset_ += begin;
  view.node_ = nullptr;
  return view;
}

NDArray NDArray::Detach() const {
  NDArray other = *this;
  other.node_ = nullptr;
  return other;
}

void NDArray::CopyTo(NDArray* destination) const {
  internal::RequireArray("CopyTo", "the array to copy", *this);
  if (destination == nullptr)
    ThrowInvalid("CopyTo", "the destination is a null pointer; give an array to copy to");
  internal::RequireArray("CopyTo", "the destination", *destination);
  if (destination->shape() != shape_)
    ThrowInvalid("CopyTo", StrCat("shapes ", shape_, " and ", destination->shape(), " differ"));
  const DType from_type = dtype(), to_type = destination->dtype();
  const bool converts = IsFloating(from_type) ? IsFloating(to_type) : to_type == DType::kFloat32;
  if (from_type != to_type && !converts)
    ThrowInvalid("CopyTo", StrCat(Name(from_type), " does not convert to ", Name(to_type)));
  // A device converts what lies in its own memory.
  if (from_type != to_type && !internal::ShareMemory(context(), destination->context())) {
    NDArray converted = NDArray::Empty(shape_, context(), to_type);
    CopyTo(&converted);
    return converted.CopyTo(destination);
  }
  LaunchOn(internal::StreamForCopy(*storage_, *destination->storage()), "copy", {*this}, {*destination},
           [from = DataOf<std::byte>(*this), to = DataOf<std::byte>(*destination), from_type, to_type,
            n = size()](Kernels& k) {
             if (from_type == to_type)
               return k.Copy({.from = from, .to = to, .bytes = static_cast<size_t>(n) * SizeOf(from_type)});
             k.Convert({.from_type = from_type, .from = from, .to_type = to_type, .to = to, .n = n});
           });
}

namespace {

// Whether `value` is in the range of an integer type; true for floating types. The bounds are exact in
// float64: int64's largest value is not, so the bound is the power of two above it.
bool Holds(DType dtype, double value) {
  switch (dtype) {
    case DType::kInt32:
      return value >= -0x1p31 && value < 0x1p31;
    case DType::kInt64:
      return value >= -0x1p63 && value < 0x1p63;
    case DType::kUInt8:
      return value >= 0 && value < 256;
    default:
      return true;
  }
}

}  // namespace

void NDArray::Fill(double value) {
  internal::RequireArray("Fill", "the array", *this);
  if (!Holds(dtype(), value)) ThrowInvalid("Fill", StrCat(Name(dtype()), " cannot hold ", value));
  Launch("fill", context(), {}, {*this},
         [to = DataOf<std::byte>(*this), type = dtype(), value, n = size()](Kernels& k) {
           k.Fill({.dtype = type, .out = to, .value = value, .n = n});
         });
}

void NDArray::SetBytes(std::span<const std::byte> bytes) {
  internal::RequireArray("SetBytes", "the array", *this);
  if (bytes.size() != static_cast<size_t>(size()) * SizeOf(dtype())) {
    ThrowInvalid("SetBytes", StrCat(bytes.size(), " bytes do not fill ", Name(dtype()), " ", shape_));
  }
  if (bytes.data() == nullptr && !bytes.empty())
    ThrowInvalid("SetBytes", StrCat("the values for ", Name(dtype()), " ", shape_, " are a null pointer"));
  LaunchOn(storage_->device->from_host(), "set", {}, {*this},
           [bytes, to = DataOf<std::byte>(*this)](Kernels& k) {
             k.Copy({.from = bytes.data(), .to = to, .bytes = bytes.size()});
           })
      .Wait();
}

void WaitAll() {
  Devices::Default()->DrainAll();
}

}  // namespace sluice
