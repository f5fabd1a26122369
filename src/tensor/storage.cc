#include "tensor/storage.h"

#include <algorithm>

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::internal {

Event Storage::LastWrite() {
  const std::lock_guard lock(mutex_);
  return write_;
}

std::vector<Event> Storage::Uses() {
  const std::lock_guard lock(mutex_);
  std::vector<Event> uses;
  for (const Event& read : reads_) {
    if (!read.Done()) uses.push_back(read.Quietly());
  }
  if (!write_.Done()) uses.push_back(write_.Quietly());
  return uses;
}

void Storage::AddRead(const Event& event) {
  const std::lock_guard lock(mutex_);
  std::erase_if(reads_, [](const Event& read) { return read.Done(); });
  reads_.push_back(event);
}

void Storage::SetWrite(const Event& event) {
  const std::lock_guard lock(mutex_);
  write_ = event;
  reads_.clear();
}

Event Launch(std::string_view what, Context context, std::span<const NDArray> inputs,
             std::span<const NDArray> outputs, std::function<void(Kernels&)> work) {
  std::vector<Event> after;
  for (const NDArray& input : inputs) after.push_back(input.storage()->LastWrite());
  for (const NDArray& output : outputs) {
    for (Event& use : output.storage()->Uses()) after.push_back(std::move(use));
  }
  std::vector<std::shared_ptr<Storage>> keep;
  for (const NDArray& input : inputs) keep.push_back(input.storage());
  for (const NDArray& output : outputs) keep.push_back(output.storage());
  const std::shared_ptr<Device> device = Devices::Default()->Get(context);
  Event done = device->stream().Enqueue(
      what, after,
      [work = std::move(work), keep = std::move(keep), kernels = &device->kernels()] { work(*kernels); });
  for (const NDArray& input : inputs) input.storage()->AddRead(done);
  for (const NDArray& output : outputs) output.storage()->SetWrite(done);
  return done;
}

}  // namespace sluice::internal
