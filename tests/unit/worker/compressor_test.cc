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

// The operation says how what it sends is to be read.
TEST(Compressor, TheOperationIsToldWhatWasDone) {
  Compressor compressor("compression of key a", {4});
  const auto compress = [&](const NDArray& gradient, Compression type) {
    const auto op = NewOperation(HeapAllocator(), OpKind::kPush);
    op->compression = {.type = type};
    op->exponent = 2;
    const NDArray bytes = compressor.Compress(gradient, 1, EnqueueOn, op.get());
    EXPECT_EQ(bytes.SharesStorage(gradient), op->exponent == 2);
    EXPECT_EQ(op->exponent == 2, op->compression.type == Compression::kNone);
    return op;
  };
  const NDArray floats({4}), halves({4}, DType::kFloat16);
  EXPECT_EQ(compress(floats, Compression::kNone)->exponent, 2u);
  EXPECT_EQ(compress(halves, Compression::kFloat16)->compression.type, Compression::kNone)
      << "it is that already";
  const auto encoded = compress(floats, Compression::kFloat16);
  EXPECT_EQ(encoded->compression.type, Compression::kFloat16);
  EXPECT_EQ(encoded->exponent, 0u) << "what is encoded has been multiplied";
}

}  // namespace
}  // namespace sluice::worker
