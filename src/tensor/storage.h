// The memory behind arrays, and the order of its uses.
#pragma once

#include <mutex>
#include <vector>

#include "sluice/ndarray.h"
#include "tensor/devices.h"

namespace sluice::internal {

struct Storage {
  Storage(Context where, DType type, size_t bytes)
      : context(where),
        dtype(type),
        device(Devices::Default()->Get(where)),
        buffer(bytes, device->allocator()) {}

  const Context context;
  const DType dtype;
  const std::shared_ptr<Device> device;
  Buffer buffer;
  // How the whole of it lies (tensor/layout.h); `image` says of which planes when channels come last.
  ImageLayout layout = ImageLayout::kRowMajor;
  PlanesShape image;

  Event LastWrite();
  // What a write has to wait for: the last write and the reads since. Their ends only: it replaces what a
  // failed write left, and a reader's failure is not its own.
  std::vector<Event> Uses();
  void AddRead(const Event& event);
  void SetWrite(const Event& event);

 private:
  std::mutex mutex_;
  // Guarded by mutex_.
  Event write_;
  std::vector<Event> reads_;
};

// Runs `work` on `context`'s stream, ordered after the writes of `inputs` and all uses of `outputs`, and
// makes it the last of both.
Event Launch(std::string_view what, Context context, std::span<const NDArray> inputs,
             std::span<const NDArray> outputs, std::function<void(Kernels&)> work);

void MakeRowMajor(const NDArray& array);

// The elements of a view, row-major. Throws where there is no array.
template <typename T = float>
T* DataOf(const NDArray& array) {
  const size_t before = static_cast<size_t>(array.offset()) * SizeOf(array.dtype());
  if (array.storage()->layout != ImageLayout::kRowMajor) MakeRowMajor(array);
  return reinterpret_cast<T*>(array.storage()->buffer.data() + before);
}

}  // namespace sluice::internal
