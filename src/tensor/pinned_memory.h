// The memory of cpu_pinned(i): pinned memory of the host.
#pragma once

#include <memory>

#include "base/buffer.h"

namespace sluice {

// The pages of pinned memory stay where they are, so that GPUs copy from and to them directly, at several
// times the speed of other memory and beside their computing. Before this process uses a GPU there is nothing
// to pin memory for, and blocks come from the heap; so they do where the system pins no more memory.
// Thread-safe.
class PinnedMemory : public Allocator {
 public:
  // Blocks are pinned from here on, and so is what was added. Called when gpu(id), the first one of the
  // process, has been made.
  virtual void Begin(int id) = 0;
  // Pins a range of whole pages that another allocator cuts its blocks from, until it is removed.
  virtual void Add(MutableBytes range) = 0;
  // The same for a range that this process can only read; it is pinned at the first WillRead, since that
  // makes its pages. Where the card cannot read such memory, or 64 GiB are pinned so, it is not.
  virtual void AddReadOnly(Bytes range) = 0;
  // A GPU is about to read `part` of a range.
  virtual void WillRead(Bytes part) = 0;
  virtual void Remove(Bytes range) noexcept = 0;
};

// Is implemented in cuda/ and no_cuda/.
std::shared_ptr<PinnedMemory> MakePinnedMemory();

}  // namespace sluice
