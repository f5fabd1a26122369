#include "kvstore/copy_to_gpu.h"

#include "kvstore/store_common.h"
#include "tensor/access.h"

namespace sluice::kvstore {

void CopyToGpuOnceDelivered(const NDArray& from, const NDArray& to, const Event& delivered,
                            const std::shared_ptr<Allocator>& records) {
  struct Copy {
    NDArray from, to;
    Event done;
  };
  const auto copy =
      std::make_shared<const Copy>(Copy{from, to, Event::Make("copy to a GPU", nullptr, records)});
  Events first = PendingUses(to);
  first.push_back(delivered);
  AddReader(from, copy->done);
  NDArray written = to;
  SetWriter(written, copy->done);
  const auto enqueue = [copy](const std::exception_ptr& error) {
    if (error != nullptr) return copy->done.Complete(error);
    try {
      EnqueueCopyToGpu(copy->from, copy->to).OnDone([done = copy->done](const std::exception_ptr& failure) {
        done.Complete(failure);
      });
    } catch (...) {
      copy->done.Complete(std::current_exception());
    }
  };
  WhenAll(first, enqueue, records);
}

}  // namespace sluice::kvstore
