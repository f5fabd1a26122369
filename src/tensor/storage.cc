#include "tensor/storage.h"

#include <utility>

namespace sluice::internal {

Event Storage::LastWrite() {
  const std::lock_guard lock(mutex_);
  return write_;
}

void Storage::AddUses(Events* events) {
  const std::lock_guard lock(mutex_);
  for (const Event& read : reads_) {
    if (!read.Done()) events->push_back(read.Quietly());
  }
  if (!write_.Done()) events->push_back(write_.Quietly());
}

void Storage::AddRead(const Event& event) {
  const std::lock_guard lock(mutex_);
  const Stream* stream = event.stream();
  reads_.EraseIf(
      [&](const Event& read) { return read.Done() || (stream != nullptr && read.stream() == stream); });
  reads_.push_back(event);
}

void Storage::SetWrite(const Event& event) {
  writes.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  write_ = event;
  reads_.clear();
}

Event Launch(Label what, Context context, const ArrayRefs& inputs, const ArrayRefs& outputs,
             KernelWork work) {
  Events after;
  InlineVector<std::shared_ptr<Storage>, 12> keep;
  for (const NDArray* input : inputs) {
    after.push_back(input->storage()->LastWrite());
    keep.push_back(input->storage());
  }
  for (const NDArray* output : outputs) {
    output->storage()->AddUses(&after);
    keep.push_back(output->storage());
  }
  const std::shared_ptr<Device> device = Devices::Default()->Get(context);
  auto run = [work = std::move(work), keep = std::move(keep), kernels = &device->kernels()]() mutable {
    work(*kernels);
  };
  static_assert(Stream::Work::kFits<decltype(run)>);
  Event done = device->stream().Enqueue(std::move(what), after, std::move(run));
  for (const NDArray* input : inputs) input->storage()->AddRead(done);
  for (const NDArray* output : outputs) output->storage()->SetWrite(done);
  return done;
}

}  // namespace sluice::internal
