// Libraries of NVIDIA's that are loaded when a card first needs them, so that a program with CUDA starts on
// machines that have none of them.
#pragma once

#include <string>

namespace sluice::cuda {

// A shared library that stays loaded as long as the object lives. Move-only.
class Library {
 public:
  // Throws Error(kUnavailable), which says what to install, if there is no library of that name.
  explicit Library(const std::string& name);
  ~Library();
  Library(Library&& other) noexcept;
  Library& operator=(Library&& other) noexcept;

  // Sets *function to the function of that name. Throws Error(kUnavailable) if the library has none.
  template <typename Function>
  void Find(const char* name, Function** function) const {
    *function = reinterpret_cast<Function*>(Find(name));
  }

 private:
  void* Find(const char* name) const;

  std::string name_;
  void* handle_ = nullptr;
};

}  // namespace sluice::cuda
