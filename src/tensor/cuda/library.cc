#include "tensor/cuda/library.h"

#include <dlfcn.h>

#include <utility>

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::cuda {

Library::Library(const std::string& name)
    : name_(name), handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
  if (handle_ != nullptr) return;
  throw Error(ErrorCode::kUnavailable,
              StrCat("computing on GPUs may need ", name, ", which cannot be loaded (", dlerror(),
                     "); install NVIDIA's package for CUDA 13 and put its folder into LD_LIBRARY_PATH"));
}

Library::~Library() {
  if (handle_ != nullptr) dlclose(handle_);
}

Library::Library(Library&& other) noexcept
    : name_(std::move(other.name_)), handle_(std::exchange(other.handle_, nullptr)) {}

Library& Library::operator=(Library&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(handle_, other.handle_);
  return *this;
}

void* Library::Find(const char* name) const {
  void* const function = dlsym(handle_, name);
  if (function == nullptr)
    throw Error(ErrorCode::kUnavailable, StrCat(name_, " has no ", name, "; install a newer version"));
  return function;
}

}  // namespace sluice::cuda
