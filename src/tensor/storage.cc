// Storage and Launch. A storage keeps its last write and the reads since as events; Launch is the one
// function that turns them into an operation's dependencies, so that operations on the same memory run in
// the order in which they were issued, on whatever streams. All kernels are launched through it, on the
// thread of the program that issues the operation; stores and transports, which use arrays from outside,
// come through access.h. Adopt, RestoreOwnBuffer and CopyToOwnBuffer are part of such an operation, and
// run on the thread that carries it out.
#include "tensor/storage.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::internal {
namespace {

// The one block of memory that NDArray::Wrap was given.
class WrappedMemory final : public Allocator {
 public:
  WrappedMemory(void* data, std::shared_ptr<const void> owner) : data_(data), owner_(std::move(owner)) {}
  void* Allocate(size_t) override { return data_; }
  void Deallocate(void*, size_t) noexcept override {}

 private:
  void* const data_;
  const std::shared_ptr<const void> owner_;
};

}  // namespace

void ThrowNoArray(std::string_view call, std::string_view which) {
  throw Error(
      ErrorCode::kFailedPrecondition,
      StrCat(call, ": ", which,
             " was never made, or has been moved from; NDArray(shape) and NDArray::From make arrays"));
}

Storage::Storage(Context where, DType type, MutableBytes elements, std::shared_ptr<const void> owner,
                 std::shared_ptr<Device> on)
    : context(where),
      dtype(type),
      device(std::move(on)),
      stays(true),
      own_(elements.size(), std::make_shared<WrappedMemory>(elements.data(), std::move(owner))),
      data_(own_.data()) {}

Storage::~Storage() {
  if (InForkedChild()) return;
  Events uses;
  AddUses(&uses);
  if (!uses.empty()) device->LeaveUses(own_.data(), {uses.data(), uses.size()});
}

Event Storage::LastWrite() {
  const MutexLock lock(mutex_);
  return write_;
}

void Storage::AddUses(Events* events) {
  const MutexLock lock(mutex_);
  for (const Event& read : reads_) {
    if (!read.Done()) events->push_back(read.Quietly());
  }
  if (!write_.Done()) events->push_back(write_.Quietly());
}

void Storage::AddRead(const Event& event) {
  const MutexLock lock(mutex_);
  const Stream* stream = event.stream();
  if (reads_.size() >= next_sweep_ || reads_.size() <= kFewReads) {
    reads_.EraseIf(
        [&](const Event& read) { return read.Done() || (stream != nullptr && read.stream() == stream); });
    next_sweep_ = 2 * reads_.size();
  }
  reads_.push_back(event);
}

void Storage::SetWrite(const Event& event) {
  writes.fetch_add(1, std::memory_order_relaxed);
  const MutexLock lock(mutex_);
  write_ = event;
  reads_.clear();
}

void Storage::SetOrigin(const std::shared_ptr<const void>& origin) {
  const MutexLock lock(mutex_);
  if (origin_ != origin) origin_ = origin;
  origin_writes_ = writes.load(std::memory_order_relaxed);
}

std::shared_ptr<const void> Storage::origin() {
  const MutexLock lock(mutex_);
  return origin_writes_ == writes.load(std::memory_order_relaxed) ? origin_ : nullptr;
}

void Storage::Adopt(Frame frame) {
  SLUICE_CHECK(frame.size() == size()) << frame.size() << " bytes for an array of " << size();
  const MutexLock lock(mutex_);
  // The cast is safe: Launch and MutableHostBytes call CopyToOwnBuffer before anything is written.
  data_.store(const_cast<std::byte*>(frame.data()), std::memory_order_relaxed);
  std::swap(leased_, frame);
}

MutableBytes Storage::RestoreOwnBuffer() {
  const MutexLock lock(mutex_);
  data_.store(own_.data(), std::memory_order_relaxed);
  leased_ = Frame();
  return own_.bytes();
}

void Storage::CopyToOwnBuffer() {
  if (data() == own_.data()) return;
  std::memcpy(own_.data(), data(), size());
  RestoreOwnBuffer();
}

Frame Storage::leased() {
  const MutexLock lock(mutex_);
  return leased_;
}

bool IsPart(const NDArray& array) {
  return static_cast<size_t>(array.size()) * SizeOf(array.dtype()) < array.storage()->size();
}

Event Launch(Label what, Context context, const ArrayRefs& inputs, const ArrayRefs& outputs,
             KernelWork work) {
  const std::shared_ptr<Device> device = Devices::Default()->Get(context);
  return LaunchOn({device->stream(), device->kernels()}, std::move(what), inputs, outputs, std::move(work));
}

Event LaunchOn(const DeviceStream& on, Label what, const ArrayRefs& inputs, const ArrayRefs& outputs,
               KernelWork work) {
  Events after;
  InlineVector<std::shared_ptr<Storage>, 12> keep;
  for (const NDArray* input : inputs) {
    after.push_back(input->storage()->LastWrite());
    keep.push_back(input->storage());
  }
  for (const NDArray* output : outputs) {
    output->storage()->AddUses(&after);
    if (IsPart(*output)) after.push_back(output->storage()->LastWrite());  // the rest stays as it is
    keep.push_back(output->storage());
  }
  const size_t first_output = keep.size() - static_cast<size_t>(std::ranges::distance(outputs));
  auto run = [work = std::move(work), keep = std::move(keep), first_output, kernels = &on.kernels]() mutable {
    for (size_t i = first_output; i < keep.size(); ++i) keep[i]->CopyToOwnBuffer();
    work(*kernels);
  };
  static_assert(Stream::Work::kFits<decltype(run)>);
  Event done = on.stream.Enqueue(std::move(what), after, std::move(run));
  for (const NDArray* input : inputs) input->storage()->AddRead(done);
  for (const NDArray* output : outputs) output->storage()->SetWrite(done);
  return done;
}

}  // namespace sluice::internal
