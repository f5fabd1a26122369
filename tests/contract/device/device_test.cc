// DeviceTest: an array lies in one block of the device's memory, between guards. The fixture keeps the
// block's bytes from before a run, writes them again for the second run, and compares what both have left.
#include "contract/device/device_test.h"

#include <algorithm>

#include "unit/expect_error.h"

namespace sluice::testing {
namespace {

constexpr size_t kGuard = 64;  // bytes before and behind an array
constexpr std::byte kGuardByte{0x5a};

}  // namespace

std::byte* DeviceTest::Add(const std::vector<std::byte>& bytes, size_t width, bool may_change) {
  Array array;
  array.offset = kGuard + static_cast<size_t>(Below(4)) * width;
  array.size = bytes.size();
  array.may_change = may_change;
  array.before.assign(array.offset + bytes.size() + kGuard, kGuardByte);
  std::copy(bytes.begin(), bytes.end(), array.before.begin() + static_cast<ptrdiff_t>(array.offset));
  array.memory = backend_->Allocate(array.before.size());
  std::byte* const begin = array.memory.get() + array.offset;
  arrays_.push_back(std::move(array));
  return begin;
}

void DeviceTest::Clear() {
  arrays_.clear();
  after_.clear();
}

std::vector<std::byte> DeviceTest::Download(const Array& array) {
  std::vector<std::byte> bytes(array.before.size());
  backend_->Download(array.memory.get(), bytes.data(), bytes.size());
  return bytes;
}

void DeviceTest::RunOnce(const std::function<void(Kernels&)>& work) {
  for (const Array& array : arrays_)
    backend_->Upload(array.before.data(), array.memory.get(), array.before.size());
  backend_->Run(work);
}

void DeviceTest::ExpectRightPlaces(const Array& array, const std::vector<std::byte>& now) const {
  const auto begin = static_cast<ptrdiff_t>(array.offset), end = begin + static_cast<ptrdiff_t>(array.size);
  EXPECT_TRUE(std::equal(now.begin(), now.begin() + begin, array.before.begin()))
      << "the kernel has written before an array of " << array.size << " bytes";
  EXPECT_TRUE(std::equal(now.begin() + end, now.end(), array.before.begin() + end))
      << "the kernel has written behind an array of " << array.size << " bytes";
  if (array.may_change) return;
  EXPECT_TRUE(std::equal(now.begin() + begin, now.begin() + end, array.before.begin() + begin))
      << "the kernel has written to an input of " << array.size << " bytes";
}

void DeviceTest::Run(const std::function<void(Kernels&)>& work) {
  RunOnce(work);
  std::vector<std::vector<std::byte>> first;
  for (const Array& array : arrays_) {
    first.push_back(Download(array));
    ExpectRightPlaces(array, first.back());
    const auto begin = first.back().begin() + static_cast<ptrdiff_t>(array.offset);
    after_[array.memory.get() + array.offset].assign(begin, begin + static_cast<ptrdiff_t>(array.size));
  }
  RunOnce(work);
  for (size_t i = 0; i < arrays_.size(); ++i)
    EXPECT_TRUE(Download(arrays_[i]) == first[i]) << "a second run has left other bits";
}

std::string DeviceTest::ErrorOfRun(ErrorCode code, const std::function<void(Kernels&)>& work) {
  const std::string message = ErrorOf(code, [&] { RunOnce(work); });
  for (const Array& array : arrays_) ExpectRightPlaces(array, Download(array));
  return message;
}

std::vector<float> DeviceTest::Uniform(int64_t n, double low, double high) {
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = static_cast<float>(rng_.Uniform(low, high));
  return values;
}

void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (!std::isfinite(expected[i])) {
      EXPECT_TRUE(std::isnan(expected[i]) ? std::isnan(actual[i]) : actual[i] == expected[i])
          << "element " << i << " is " << actual[i] << ", not " << expected[i];
      continue;
    }
    ASSERT_TRUE(std::isfinite(actual[i]))
        << "element " << i << " is " << actual[i] << ", not " << expected[i];
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(norm))
      << "of " << actual.size() << " elements with the norm " << std::sqrt(norm);
}

}  // namespace sluice::testing
