// The devices on which the contract of Kernels (src/tensor/kernels.h) is tried.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <ostream>
#include <vector>

#include "tensor/devices.h"
#include "tensor/kernels.h"

namespace sluice::testing {

// One device with its memory, which host code must not touch. Used by one thread.
class Backend {
 public:
  virtual ~Backend() = default;
  // Returns memory of the device that begins at a multiple of 64 bytes.
  virtual std::shared_ptr<std::byte> Allocate(size_t bytes) = 0;
  virtual void Upload(const std::byte* from, std::byte* to, size_t bytes) = 0;
  virtual void Download(const std::byte* from, std::byte* to, size_t bytes) = 0;
  // Runs `work` on the device's stream, waits for its end and throws what it threw.
  virtual void Run(const std::function<void(Kernels&)>& work) = 0;
};

struct BackendKind {
  const char* name;
  std::shared_ptr<Backend> (*make)();  // one for all tests of the program; null where it is missing
};
inline std::ostream& operator<<(std::ostream& out, const BackendKind& kind) {
  return out << kind.name;
}

// The devices that the program tries.
const std::vector<BackendKind>& Backends();

}  // namespace sluice::testing
