// An array that can take another block of memory as its own, in place of a copy.
#pragma once

#include "base/buffer.h"

namespace sluice {

// The caller makes sure that nothing reads or writes the array's bytes while one of these methods runs.
class BufferSlot {
 public:
  virtual ~BufferSlot() = default;
  // Makes the frame's bytes, size() of them, the array's bytes. Releases the frame that was adopted before.
  virtual void Adopt(Frame frame) = 0;
  // Moves the array back to its own memory, contents undefined, and returns that memory.
  virtual MutableBytes RestoreOwnBuffer() = 0;
  virtual size_t size() const = 0;
};

}  // namespace sluice
