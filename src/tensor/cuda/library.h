// Libraries of NVIDIA's that are loaded when a card first needs them, so that a program with CUDA starts on
// machines that have none of them.
#pragma once

#include <memory>
#include <string>
#include <utility>

namespace sluice::cuda {

inline constexpr char kCublasLt[] = "libcublasLt.so.13";
inline constexpr char kCudnn[] = "libcudnn.so.9";
inline constexpr char kNccl[] = "libnccl.so.2";

// A shared library, which stays loaded: NVIDIA's have threads and exit handlers of their own. Move-only.
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

// Loads the library of that name and returns its functions, a struct of pointers which find(library,
// &functions) sets. The library stays loaded as long as they are held. Throws what Library throws.
template <typename Functions, typename Find>
std::shared_ptr<const Functions> LoadFunctions(const std::string& name, Find&& find) {
  struct Loaded {
    Library library;
    Functions functions{};
  };
  auto loaded = std::make_shared<Loaded>(Loaded{Library(name)});
  find(loaded->library, &loaded->functions);
  const Functions* const functions = &loaded->functions;
  return {std::move(loaded), functions};
}

}  // namespace sluice::cuda
