// Memory that can be exchanged for other memory with the same contents, in place of a copy.
#pragma once

#include "base/buffer.h"

namespace sluice {

// Nobody reads or writes its bytes while one of these runs.
class Adopter {
 public:
  virtual ~Adopter() = default;
  // Its bytes are the frame's from here on, of which there are as many. What was adopted before is let go of.
  virtual void Adopt(Frame frame) = 0;
  // Its bytes lie in its own memory from here on, contents undefined.
  virtual MutableBytes RestoreOwnBuffer() = 0;
  virtual size_t size() const = 0;
};

}  // namespace sluice
