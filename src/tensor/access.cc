#include "tensor/access.h"

#include "base/pool_allocator.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/storage.h"

namespace sluice {
namespace {

void RequireHost(const NDArray& array) {
  if (array.context().kind == DeviceKind::kGpu) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("the bytes of an array on ", array.context(), " are not in host memory"));
  }
}

}  // namespace

Event ReadyToRead(const NDArray& array) {
  internal::DataOf(array);  // row-major from here on
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

Bytes HostBytes(const NDArray& array) {
  RequireHost(array);
  return {internal::DataOf<std::byte>(array), static_cast<size_t>(array.size()) * SizeOf(array.dtype())};
}

MutableBytes MutableHostBytes(NDArray& array) {
  RequireHost(array);
  return {internal::DataOf<std::byte>(array), static_cast<size_t>(array.size()) * SizeOf(array.dtype())};
}

Frame HostFrame(const NDArray& array) {
  return Frame(HostBytes(array), array.storage());
}

Frame HostFrame(const NDArray& array, const Event& released, const std::shared_ptr<Allocator>& records) {
  struct Held {
    Held(std::shared_ptr<internal::Storage> of, const Event& end) : storage(std::move(of)), released(end) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() {
      storage = nullptr;  // lets go of its array before whoever waits goes on
      released.Complete();
    }
    std::shared_ptr<internal::Storage> storage;
    const Event released;
  };
  return Frame(HostBytes(array),
               std::allocate_shared<Held>(MemoryOf<Held>(records), array.storage(), released));
}

Event EnqueueOn(Context context, Label what, std::span<const Event> after, Stream::Work work) {
  return Devices::Default()->Get(context)->stream().Enqueue(std::move(what), after, std::move(work));
}

}  // namespace sluice
