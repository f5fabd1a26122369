// The memory behind arrays, and the order of its uses.
#pragma once

#include <atomic>
#include <concepts>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <ranges>

#include "sluice/ndarray.h"
#include "tensor/devices.h"

namespace sluice::internal {

struct Storage {
  Storage(Context where, DType type, size_t bytes, std::shared_ptr<Device> on)
      : context(where), dtype(type), device(std::move(on)), buffer(bytes, device->allocator()) {}

  const Context context;
  const DType dtype;
  const std::shared_ptr<Device> device;
  Buffer buffer;
  // How the whole of it lies (tensor/layout.h); `image` says of which planes when channels come last.
  ImageLayout layout = ImageLayout::kRowMajor;
  PlanesShape image;

  // How often its values were written, counted when the write is issued; what the tape keeps is compared by
  // it (autograd/node.h). Views share it.
  std::atomic<uint32_t> writes = 0;

  Event LastWrite();
  // Adds what a write has to wait for: the last write and the reads since. Their ends only: it replaces what
  // a failed write left, and a reader's failure is not its own.
  void AddUses(Events* events);
  void AddRead(const Event& event);
  void SetWrite(const Event& event);

 private:
  std::mutex mutex_;
  // Guarded by mutex_.
  Event write_;
  InlineVector<Event, 4> reads_;  // the last of each stream
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
using KernelWork = InlineFunction<void(Kernels&), 256>;

// Runs `work` on `context`'s stream, ordered after the writes of `inputs` and all uses of `outputs`, and
// makes it the last of both.
Event Launch(Label what, Context context, const ArrayRefs& inputs, const ArrayRefs& outputs, KernelWork work);

void MakeRowMajor(const NDArray& array);

// A view of `shape`, `begin` elements further on, that the tape does not follow.
NDArray ViewOf(const NDArray& array, const Shape& shape, int64_t begin = 0);

// The elements of a view, row-major. Throws where there is no array.
template <typename T = float>
T* DataOf(const NDArray& array) {
  const size_t before = static_cast<size_t>(array.offset()) * SizeOf(array.dtype());
  if (array.storage()->layout != ImageLayout::kRowMajor) MakeRowMajor(array);
  return reinterpret_cast<T*>(array.storage()->buffer.data() + before);
}

}  // namespace sluice::internal
