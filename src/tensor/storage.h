// The memory behind arrays (Storage), and the order of its uses: Launch runs a kernel after the operations
// that it depends on, and records it as the storage's next read or write.
#pragma once

#include <atomic>
#include <concepts>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <string_view>

#include "base/buffer_slot.h"
#include "base/quick_mutex.h"
#include "sluice/ndarray.h"
#include "tensor/devices.h"
#include "tensor/kernels/reorder.h"

namespace sluice::internal {

// The elements lie in the storage's own buffer, or, after Adopt, in memory that another
// process has leased to this one (access.h). The place of the elements changes in the
// order of the storage's uses, as their values do.
//
// Thread safety: methods and `writes`, `adopts` may be used from any thread; `layout` and
// `image` only from the thread that issues operations.
struct Storage final : BufferSlot {
  Storage(Context where, DType type, size_t bytes, std::shared_ptr<Device> on)
      : context(where),
        dtype(type),
        device(std::move(on)),
        own_(bytes, device->allocator()),
        data_(own_.data()) {
    for (Event& use : device->TakeUses(own_.data())) reads_.push_back(std::move(use));
  }
  // The elements lie in host memory of the program, which `owner` keeps alive (NDArray::Wrap).
  Storage(Context where, DType type, MutableBytes elements, std::shared_ptr<const void> owner,
          std::shared_ptr<Device> on);
  ~Storage() override;

  const Context context;
  const DType dtype;
  const std::shared_ptr<Device> device;
  size_t size() const override { return own_.size(); }  // bytes
  std::byte* data() const { return data_.load(std::memory_order_relaxed); }
  // The memory layout of the whole storage (tensor/layout.h). `image` holds the shape of the images while
  // `layout` is kChannelsLast.
  ImageLayout layout = ImageLayout::kRowMajor;
  PlanesShape image;

  // The number of writes issued so far; views share it. The tape compares it to find out whether an array
  // that it keeps has been overwritten (autograd/node.h).
  std::atomic<uint32_t> writes = 0;
  // SetOrigin notes the origin of the value that the last write issued brings (tensor/access.h).
  // origin() returns null once another write has been issued.
  void SetOrigin(const std::shared_ptr<const void>& origin);
  std::shared_ptr<const void> origin();

  Event LastWrite();
  // Adds the events that a write has to wait for: the last write and the reads since. They are added as quiet
  // events, without errors: the new write replaces what a failed write left, and does not depend on a reader.
  void AddUses(Events* events);
  void AddRead(const Event& event);
  void SetWrite(const Event& event);

  // True when the elements stay at their address for good: the memory is the program's (NDArray::Wrap), or
  // the program has views of it (Export in access.h).
  std::atomic<bool> stays = false;
  // True when a write issued earlier may replace the memory by Adopt; set in the order of issue (LetAdopt).
  std::atomic<bool> adopts = false;
  // The elements lie in `frame` from here on. A frame is read-only, so a writer calls CopyToOwnBuffer first.
  void Adopt(Frame frame) override;
  MutableBytes RestoreOwnBuffer() override;
  // Copies the elements back to the storage's own buffer if they lie in an adopted frame. No
  // other operation may use the storage during the call.
  void CopyToOwnBuffer();
  Frame leased();  // the adopted frame; an empty one while the elements lie in the storage's own buffer

 private:
  Buffer own_;
  std::atomic<std::byte*> data_;
  QuickMutex mutex_;
  Frame leased_ SLUICE_GUARDED_BY(mutex_);
  Event write_ SLUICE_GUARDED_BY(mutex_);
  // The reads since the last write; the last one of each stream. Before the first write, the uses of the
  // memory before this storage had it (Device::TakeUses).
  InlineVector<Event, 4> reads_ SLUICE_GUARDED_BY(mutex_);
  // More reads than kFewReads are looked through each time that their number has doubled: 100,000 keys may be
  // made from one array.
  static constexpr size_t kFewReads = 8;
  size_t next_sweep_ SLUICE_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const void> origin_ SLUICE_GUARDED_BY(mutex_);
  uint32_t origin_writes_ SLUICE_GUARDED_BY(mutex_) = 0;  // `writes` when origin_ was set
};

// The arrays of a call, written as a list or given as a range of NDArray. It holds pointers, so it is valid
// only during the call. Handles without an array are left out.
class ArrayRefs {
 public:
  struct Ref {
    Ref(const NDArray& of) : array(&of) {}  // NOLINT(google-explicit-constructor): {a, b} converts to Refs
    const NDArray* array;
  };
  ArrayRefs() = default;
  ArrayRefs(std::initializer_list<Ref> arrays) {
    for (const Ref& ref : arrays) Add(*ref.array);
  }
  template <std::ranges::range Arrays>
  requires std::same_as<std::ranges::range_value_t<Arrays>, NDArray>  //
  ArrayRefs(const Arrays& arrays) {                                   // NOLINT(google-explicit-constructor)
    for (const NDArray& array : arrays) Add(array);
  }
  void Add(const NDArray& array) {
    if (array.valid()) arrays_.push_back(&array);
  }
  auto begin() const { return arrays_.begin(); }
  auto end() const { return arrays_.end(); }

 private:
  InlineVector<const NDArray*, 8> arrays_;
};

// The part of an operation that runs on the stream: it calls one kernel, or a few.
using KernelWork = InlineFunction<void(Kernels&), 448>;

[[noreturn]] void ThrowNoArray(std::string_view call, std::string_view which);
// Throws Error(kFailedPrecondition) if the handle `array` has no array; the message names
// `call` and `which`, the array's role in that call.
inline void RequireArray(std::string_view call, std::string_view which, const NDArray& array) {
  if (!array.valid()) ThrowNoArray(call, which);
}

// Returns whether `array` is a view of some of its storage's elements.
bool IsPart(const NDArray& array);

// Enqueues `work` on the stream of `context` and returns at once. `work` runs after the last write of each of
// `inputs` and after all uses of `outputs`. The returned event completes when it has run; it is recorded as
// the last read of `inputs` and the last write of `outputs`. An error of an input's write carries on to it,
// and so does that of an output that is a view of a part of its storage, since the other part keeps what was
// written. An array that `work` reads and writes is in both lists, unless a failed write leaves it as it was.
Event Launch(Label what, Context context, const ArrayRefs& inputs, const ArrayRefs& outputs, KernelWork work);
// The same on one of the streams of a device (Device::to_host, Device::from_host).
Event LaunchOn(const DeviceStream& on, Label what, const ArrayRefs& inputs, const ArrayRefs& outputs,
               KernelWork work);

// Makes the whole storage of `array` row-major, in place. Operations issued from here on see that layout; the
// reordering itself runs on the stream.
void MakeRowMajor(const NDArray& array);

// Returns a view of `shape` that begins `begin` elements after `array` does. The tape does not follow it.
NDArray ViewOf(const NDArray& array, const Shape& shape, int64_t begin = 0);

// A pointer to an array's elements, to be captured by work that is launched with the array. The address is
// read when the work runs, since an earlier operation may change it (Storage::Adopt).
template <typename T>
class Data {
 public:
  Data(std::nullptr_t = nullptr) {}  // NOLINT(google-explicit-constructor): converts as a pointer does
  Data(const Storage& storage, size_t offset) : storage_(&storage), offset_(offset) {}
  T* get() const { return storage_ == nullptr ? nullptr : reinterpret_cast<T*>(storage_->data() + offset_); }
  operator T*() const { return get(); }  // NOLINT(google-explicit-constructor): kernels take pointers

 private:
  const Storage* storage_ = nullptr;
  size_t offset_ = 0;  // bytes
};

// Returns the elements of `array` in row-major order; a storage in another layout is made row-major first
// (MakeRowMajor). Throws Error(kFailedPrecondition) if the handle has no array.
template <typename T = float>
Data<T> DataOf(const NDArray& array) {
  RequireArray("an operation", "one of its arrays", array);
  if (array.storage()->layout != ImageLayout::kRowMajor) MakeRowMajor(array);
  return {*array.storage(), static_cast<size_t>(array.offset()) * SizeOf(array.dtype())};
}

}  // namespace sluice::internal
