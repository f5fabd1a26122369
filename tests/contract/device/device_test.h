// The fixture of the device contract: arrays in a device's memory, and one run of a kernel over them.
//
// An array begins 0 to 3 elements behind a multiple of 64 bytes, as a view may, and lies between guards. Run
// fails the test when a kernel writes to a guard or to an input, and when a second run from the same memory
// does not leave the same bits. Outputs hold poison (NaN in floats) before a run, so that an element that a
// kernel forgets or reads is seen. Expected values are computed here in float64, by the plainest loops.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "base/rng.h"
#include "contract/device/backend.h"
#include "sluice/error.h"

namespace sluice::testing {

// Sums in float32 of about a thousand terms lie within this, measured as ExpectNear does.
inline constexpr double kFloatTolerance = 1e-5;
// How far products may be off: TensorFloat-32 keeps 11 bits of a factor, bfloat16 8.
constexpr double ToleranceOf(Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::kFloat32) return kFloatTolerance;
  return arithmetic == Arithmetic::kTFloat32 ? 1e-3 : 1e-2;
}
inline constexpr Arithmetic kArithmetics[] = {Arithmetic::kFloat32, Arithmetic::kTFloat32,
                                              Arithmetic::kBFloat16};
constexpr const char* NameOf(Arithmetic arithmetic) {
  constexpr const char* kNames[] = {"float32", "TensorFloat-32", "bfloat16"};
  return kNames[static_cast<int>(arithmetic)];
}

class DeviceTest : public ::testing::TestWithParam<BackendKind> {
 protected:
  DeviceTest() : backend_(GetParam().make()), rng_(kSeed) {}
  void SetUp() override {
    if (backend_ == nullptr) GTEST_SKIP() << "this machine has no such device";
  }

  // --- Arrays, which stay until Clear ---

  // Copies `values` to the device. A kernel may only read them.
  template <typename T>
  const T* Input(const std::vector<T>& values) {
    return reinterpret_cast<const T*>(Add(Bytes(values), sizeof(T), /*may_change=*/false));
  }
  // The same for arrays that a kernel may write to.
  template <typename T>
  T* InOut(const std::vector<T>& values) {
    return reinterpret_cast<T*>(Add(Bytes(values), sizeof(T), /*may_change=*/true));
  }
  // Makes an array of n elements of poison: NaN, -1 or 255.
  template <typename T>
  T* Output(int64_t n) {
    const std::vector<std::byte> poison(static_cast<size_t>(n) * sizeof(T), std::byte{0xff});
    return reinterpret_cast<T*>(Add(poison, sizeof(T), /*may_change=*/true));
  }
  // Returns the elements of an array of this fixture as the last Run has left them.
  template <typename T>
  std::vector<T> Read(const T* array) const {
    const std::vector<std::byte>& bytes = after_.at(array);
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  void Clear();

  // --- Runs ---

  // Runs `work` twice on the device and checks what the file's comment says.
  void Run(const std::function<void(Kernels&)>& work);
  // Expects `work` to throw an Error with `code`, and returns its message.
  std::string ErrorOfRun(ErrorCode code, const std::function<void(Kernels&)>& work);

  // --- Random values, the same in every run ---

  Rng& rng() { return rng_; }
  int64_t Below(int64_t n) { return static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(n))); }
  // Returns a number in [low, high].
  int64_t Between(int64_t low, int64_t high) { return low + Below(high - low + 1); }
  std::vector<float> Uniform(int64_t n, double low = -1, double high = 1);
  // Whole numbers in [low, high], which are exact in any type of T's width.
  template <typename T>
  std::vector<T> Whole(int64_t n, int64_t low, int64_t high) {
    std::vector<T> values(static_cast<size_t>(n));
    for (T& value : values) value = static_cast<T>(Between(low, high));
    return values;
  }

 private:
  static constexpr uint64_t kSeed = 20261128;
  struct Array {
    std::shared_ptr<std::byte> memory;  // guard, the array's bytes, guard
    std::vector<std::byte> before;      // all of `memory` before a run
    size_t offset = 0, size = 0;        // where the array lies in it
    bool may_change = false;
  };

  template <typename T>
  static std::vector<std::byte> Bytes(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<std::byte> bytes(values.size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  std::byte* Add(const std::vector<std::byte>& bytes, size_t width, bool may_change);
  std::vector<std::byte> Download(const Array& array);
  void RunOnce(const std::function<void(Kernels&)>& work);
  void ExpectRightPlaces(const Array& array, const std::vector<std::byte>& now) const;

  const std::shared_ptr<Backend> backend_;
  Rng rng_;
  std::vector<Array> arrays_;
  std::map<const void*, std::vector<std::byte>> after_;  // the arrays' bytes by their beginnings
};

// Instantiates the tests of a fixture for every device of this build.
#define SLUICE_ON_EVERY_DEVICE(Fixture)                                       \
  INSTANTIATE_TEST_SUITE_P(Devices, Fixture, ::testing::ValuesIn(Backends()), \
                           [](const auto& info) { return std::string(info.param.name); })

// Expects the 2-norm of the difference to be at most `tolerance` times that of `expected`, and numbers that
// are not finite to stand where they are expected.
void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected,
                double tolerance = kFloatTolerance);

}  // namespace sluice::testing
