// The memory behind arrays, and the order of its uses.
#pragma once

#include <atomic>
#include <concepts>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <ranges>
#include <string_view>

#include "base/adopter.h"
#include "base/quick_mutex.h"
#include "sluice/ndarray.h"
#include "tensor/devices.h"

namespace sluice::internal {

// Its elements lie in memory of its own, or, of a storage that adopts, in what another process has lent
// (access.h). Where they lie changes in the order of its uses, as their values do.
struct Storage final : Adopter {
  Storage(Context where, DType type, size_t bytes, std::shared_ptr<Device> on)
      : context(where),
        dtype(type),
        device(std::move(on)),
        own_(bytes, device->allocator()),
        data_(own_.data()) {}

  const Context context;
  const DType dtype;
  const std::shared_ptr<Device> device;
  size_t size() const override { return own_.size(); }  // bytes
  std::byte* data() const { return data_.load(std::memory_order_relaxed); }
  // How the whole of it lies (tensor/layout.h); `image` says of which planes when channels come last.
  ImageLayout layout = ImageLayout::kRowMajor;
  PlanesShape image;

  // How often its values were written, counted when the write is issued; what the tape keeps is compared by
  // it (autograd/node.h). Views share it.
  std::atomic<uint32_t> writes = 0;
  // Whose value the last write brings (tensor/origin.h); null once another write has been issued.
  void SetOrigin(const std::shared_ptr<const void>& origin);
  std::shared_ptr<const void> origin();

  Event LastWrite();
  // Adds what a write has to wait for: the last write and the reads since. Their ends only: it replaces what
  // a failed write left, and a reader's failure is not its own.
  void AddUses(Events* events);
  void AddRead(const Event& event);
  void SetWrite(const Event& event);

  // Whether it may have adopted other memory, or is about to: set in the order of issue.
  std::atomic<bool> adopts = false;
  // `frame` is read only: who is to write calls CopyToOwnBuffer before.
  void Adopt(Frame frame) override;
  MutableBytes RestoreOwnBuffer() override;
  // Its own memory again, with its values. Nobody uses it meanwhile.
  void CopyToOwnBuffer();
  Frame leased();  // no frame: its elements lie in its own memory

 private:
  Buffer own_;
  std::atomic<std::byte*> data_;
  QuickMutex mutex_;
  // Guarded by mutex_.
  Frame leased_;
  Event write_;
  InlineVector<Event, 4> reads_;  // the last of each stream
  std::shared_ptr<const void> origin_;
  uint32_t origin_writes_ = 0;  // `writes`, then
};

// The arrays of a call, for as long as it takes: listed, or a range of them. Handles without an array are
// left out.
class ArrayRefs {
 public:
  struct Ref {
    Ref(const NDArray& of) : array(&of) {}  // NOLINT(google-explicit-constructor): listed as they are
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

// What a kernel is called with, or a few of them.
using KernelWork = InlineFunction<void(Kernels&), 448>;

[[noreturn]] void ThrowNoArray(std::string_view call, std::string_view which);
// That `array`, which is `which` of `call`, is one. Throws Error(kFailedPrecondition).
inline void RequireArray(std::string_view call, std::string_view which, const NDArray& array) {
  if (!array.valid()) ThrowNoArray(call, which);
}

// Runs `work` on `context`'s stream, ordered after the writes of `inputs` and all uses of `outputs`, and
// makes it the last of both.
Event Launch(Label what, Context context, const ArrayRefs& inputs, const ArrayRefs& outputs, KernelWork work);

// Makes the whole storage row-major, in place. At once: its operations issued from here on.
void MakeRowMajor(const NDArray& array);

// A view of `shape`, `begin` elements further on, that the tape does not follow.
NDArray ViewOf(const NDArray& array, const Shape& shape, int64_t begin = 0);

// The elements of an array for work that is launched with it: where they lie is known when that runs.
template <typename T>
class Data {
 public:
  Data(std::nullptr_t = nullptr) {}  // NOLINT(google-explicit-constructor): as a pointer
  Data(const Storage& storage, size_t offset) : storage_(&storage), offset_(offset) {}
  T* get() const { return storage_ == nullptr ? nullptr : reinterpret_cast<T*>(storage_->data() + offset_); }
  operator T*() const { return get(); }  // NOLINT(google-explicit-constructor): what kernels take

 private:
  const Storage* storage_ = nullptr;
  size_t offset_ = 0;  // bytes
};

// The elements of a view, row-major. Throws where there is no array.
template <typename T = float>
Data<T> DataOf(const NDArray& array) {
  RequireArray("an operation", "one of its arrays", array);
  if (array.storage()->layout != ImageLayout::kRowMajor) MakeRowMajor(array);
  return {*array.storage(), static_cast<size_t>(array.offset()) * SizeOf(array.dtype())};
}

}  // namespace sluice::internal
