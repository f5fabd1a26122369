#include "worker/push/compressor.h"

#include <gtest/gtest.h>

namespace sluice::worker {
namespace {

// Until it ends a push sends what lies in the memory that it was given; one that failed may do so even later.
TEST(Compressor, TheMemoryOfAPushServesTheNextUnlessItFailed) {
  Compressor compressor("compression of key a", {256});
  const NDArray gradient({256});
  const auto push = [&](std::exception_ptr failure) {
    const auto op = NewOperation(HeapAllocator(), OpKind::kPush);
    op->compression = {.type = Compression::kFloat16};
    const NDArray bytes = compressor.Compress(gradient, 1, EnqueueOn, op.get());
    bytes.WaitToRead();
    const Event sent = Event::Make("push of key a");
    compressor.Sent(sent);
    sent.Complete(std::move(failure));
    return bytes;
  };
  const NDArray first = push(nullptr);
  const NDArray second = push(std::make_exception_ptr(Error(ErrorCode::kDeadlineExceeded, "late")));
  const NDArray third = push(nullptr);
  EXPECT_TRUE(second.SharesStorage(first));
  EXPECT_FALSE(third.SharesStorage(second));
}

}  // namespace
}  // namespace sluice::worker
