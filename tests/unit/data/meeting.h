// A data set that proves that several threads read it at the same time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/strings.h"
#include "sluice/data.h"
#include "sluice/error.h"

namespace sluice::testing {

// Get returns once `expected` different threads have called it. Throws Error(kDeadlineExceeded) after 30 s.
class Meeting final : public Dataset {
 public:
  Meeting(std::shared_ptr<const Dataset> of, size_t expected) : of_(std::move(of)), expected_(expected) {}
  int64_t size() const override { return of_->size(); }
  const Shape& sample_shape() const override { return of_->sample_shape(); }
  int64_t num_classes() const override { return of_->num_classes(); }
  int32_t Get(int64_t index, std::span<float> sample) const override {
    std::unique_lock lock(mutex_);
    threads_.insert(std::this_thread::get_id());
    met_.notify_all();
    if (!met_.wait_for(lock, std::chrono::seconds(30), [&] { return threads_.size() >= expected_; }))
      throw Error(ErrorCode::kDeadlineExceeded, StrCat("only ", threads_.size(), " threads came"));
    return of_->Get(index, sample);
  }

 private:
  const std::shared_ptr<const Dataset> of_;
  const size_t expected_;
  mutable std::mutex mutex_;
  mutable std::condition_variable met_;
  mutable std::set<std::thread::id> threads_;
};

}  // namespace sluice::testing
