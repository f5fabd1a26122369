// Access to arrays from outside the tensor library (access.h), on top of Storage. The functions are called
// by stores and transports, on the thread of the program that issues the operation; only the release of a
// frame from HostFrame may happen on any thread. Invariant: an adopted frame is never written to; before a
// write in place, MutableHostBytes (or Launch) copies the elements back to the storage's own buffer.
#include "tensor/access.h"

#include "base/pool_allocator.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/kernels.h"
#include "tensor/storage.h"

namespace sluice {
namespace {

void RequireHost(const NDArray& array) {
  if (array.context().kind == DeviceKind::kGpu) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("the bytes of an array on ", array.context(), " are not in host memory"));
  }
}

size_t BytesOf(const NDArray& array) {
  return static_cast<size_t>(array.size()) * SizeOf(array.dtype());
}

// Returns an owner that keeps the elements at their present address: the
// storage, and the adopted frame if any.
std::shared_ptr<const void> OwnerOf(const NDArray& array) {
  if (!array.storage()->adopts) return array.storage();
  struct Both {
    std::shared_ptr<internal::Storage> storage;
    Frame leased;
  };
  return std::make_shared<Both>(Both{array.storage(), array.storage()->leased()});
}

}  // namespace

Event ReadyToRead(const NDArray& array) {
  internal::DataOf(array);  // makes the array row-major
  return array.storage()->LastWrite();
}
Events PendingUses(const NDArray& array) {
  internal::DataOf(array);
  Events uses;
  array.storage()->AddUses(&uses);
  return uses;
}
void AddReader(const NDArray& array, const Event& done) {
  array.storage()->AddRead(done);
}
void SetWriter(NDArray& array, const Event& done) {
  array.storage()->SetWrite(done);
}

uint64_t WritesOf(const NDArray& array) {
  return array.storage()->writes.load(std::memory_order_relaxed);
}

Bytes HostBytes(const NDArray& array) {
  RequireHost(array);
  const internal::Data<std::byte> data = internal::DataOf<std::byte>(array);
  if (array.storage()->adopts) array.storage()->LastWrite().WaitQuietly();
  return {data.get(), BytesOf(array)};
}

MutableBytes MutableHostBytes(NDArray& array) {
  RequireHost(array);
  const internal::Data<std::byte> data = internal::DataOf<std::byte>(array);
  if (internal::Storage& storage = *array.storage(); storage.adopts) {
    for (const Event& use : PendingUses(array)) use.WaitQuietly();
    storage.CopyToOwnBuffer();
    storage.adopts = false;
  }
  return {data.get(), BytesOf(array)};
}

Frame HostFrame(const NDArray& array) {
  const Bytes bytes = HostBytes(array);
  return Frame(bytes, OwnerOf(array));
}

Frame HostFrame(const NDArray& array, const Event& released, const std::shared_ptr<Allocator>& records) {
  struct Held {
    Held(std::shared_ptr<const void> of, const Event& end) : owner(std::move(of)), released(end) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() {
      owner = nullptr;  // releases the array before a waiter for `released` continues
      released.Complete();
    }
    std::shared_ptr<const void> owner;
    const Event released;
  };
  const Bytes bytes = HostBytes(array);
  return Frame(bytes, std::allocate_shared<Held>(MemoryOf<Held>(records), OwnerOf(array), released));
}

BufferSlot* BufferSlotOf(const NDArray& array) {
  internal::Storage& storage = *array.storage();
  const bool whole = BytesOf(array) == storage.size() && storage.layout == ImageLayout::kRowMajor;
  const bool adopts = whole && array.context().kind == DeviceKind::kCpu && IsFloating(array.dtype());
  return adopts ? &storage : nullptr;
}

void LetAdopt(NDArray& array) {
  array.storage()->adopts = true;
}

bool Adopts(const NDArray& array) {
  return array.storage()->adopts;
}

void SetOrigin(const NDArray& array, const std::shared_ptr<const void>& origin) {
  internal::Storage& storage = *array.storage();
  if (BytesOf(array) == storage.size()) storage.SetOrigin(origin);
}

std::shared_ptr<const void> OriginOf(const NDArray& array) {
  return array.storage()->origin();
}

Event EnqueueCopyToGpu(const NDArray& value, const NDArray& out) {
  const DeviceStream on = out.storage()->device->delivered();
  return on.stream.Enqueue("copy to a GPU", {},
                           [value, out, from = internal::DataOf<std::byte>(value),
                            to = internal::DataOf<std::byte>(out), kernels = &on.kernels] {
                             const auto bytes = static_cast<size_t>(value.size()) * SizeOf(value.dtype());
                             kernels->Copy({.from = from, .to = to, .bytes = bytes});
                           });
}

Event EnqueueOn(Context context, Label what, std::span<const Event> after, Stream::Work work) {
  return Devices::Default()->Get(context)->stream().Enqueue(std::move(what), after, std::move(work));
}

}  // namespace sluice
