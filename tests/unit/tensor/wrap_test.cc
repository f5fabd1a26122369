// Arrays of the program's own memory (NDArray::Wrap), and views of arrays outside of the library (Export).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "sluice/ndarray.h"
#include "tensor/access.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Memory that notes when it is released.
struct Memory {
  explicit Memory(std::vector<float> numbers)
      : values(std::make_shared<std::vector<float>>(std::move(numbers))), alive(values) {}
  NDArray Wrapped(const Shape& shape) {
    void* const data = values->data();
    return NDArray::Wrap(data, shape, std::move(values));
  }
  std::shared_ptr<std::vector<float>> values;
  std::weak_ptr<std::vector<float>> alive;
};

TEST(Wrap, OperationsReadAndWriteTheProgramsMemory) {
  float data[] = {1, 2, 3, 4};
  NDArray array = NDArray::Wrap(data, {2, 2}, nullptr);
  EXPECT_THAT((array + 1.0F).ToVector(), ElementsAre(2, 3, 4, 5));
  array *= 2;
  array.WaitToRead();
  EXPECT_THAT(data, ElementsAre(2, 4, 6, 8));
  array.SliceRows(1, 2).Fill(0);
  array.WaitToRead();
  EXPECT_THAT(data, ElementsAre(2, 4, 0, 0));
  EXPECT_EQ(HostBytes(array).data(), reinterpret_cast<const std::byte*>(data));
}

TEST(Wrap, TheOwnerLivesAsLongAsAnyHandleOrOperation) {
  Memory memory({1, 2});
  NDArray array = memory.Wrapped({2});
  NDArray view = array.Reshape({1, 2});
  Frame frame = HostFrame(array);
  array = NDArray();
  EXPECT_FALSE(memory.alive.expired());
  view = NDArray();
  EXPECT_FALSE(memory.alive.expired()) << "a frame is left";
  frame = Frame();
  EXPECT_TRUE(memory.alive.expired());
}

TEST(Wrap, TheOwnerIsReleasedAfterTheOperation) {
  Memory memory({1, 2});
  NDArray sum = memory.Wrapped({2}) + 1.0F;
  EXPECT_THAT(sum.ToVector(), ElementsAre(2, 3));
  NDArray({1}).WaitToRead();  // comes after it on the stream, which has let go of its inputs then
  EXPECT_TRUE(memory.alive.expired());
}

TEST(Wrap, ItsMemoryIsNeverReplaced) {
  float data[] = {1, 2};
  EXPECT_EQ(BufferSlotOf(NDArray::Wrap(data, {2}, nullptr)), nullptr);
}

TEST(Wrap, AnEmptyArrayNeedsNoMemory) {
  EXPECT_THAT(NDArray::Wrap(nullptr, {0, 3}, nullptr).ToVector(), ElementsAre());
}

TEST(Wrap, OtherTypesAndContexts) {
  int64_t ids[] = {5, 7};
  const NDArray array = NDArray::Wrap(ids, {2}, nullptr, DType::kInt64, cpu(1));
  EXPECT_THAT(array.ToVector<int64_t>(), ElementsAre(5, 7));
  EXPECT_EQ(array.context(), cpu(1));
}

TEST(Wrap, RefusesWhatIsNoMemoryOfAnArray) {
  alignas(8) std::byte bytes[32];
  const auto wrap = [](void* data, Context context) {
    NDArray::Wrap(data, {2}, nullptr, DType::kFloat32, context);
  };
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { wrap(nullptr, cpu(0)); }),
              HasSubstr("float32 [2] is a null pointer"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { wrap(bytes + 2, cpu(0)); }),
              HasSubstr("not aligned to 4 bytes"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { wrap(bytes, gpu(0)); }),
              HasSubstr("only the host's is"));
}

TEST(Export, ShowsWhatWasIssuedAndStaysInPlace) {
  NDArray array({3});
  array.Fill(2);
  array += 1;
  const MutableBytes bytes = Export(array);
  EXPECT_EQ(reinterpret_cast<const float*>(bytes.data())[2], 3);
  EXPECT_EQ(BufferSlotOf(array), nullptr);
  const float values[] = {4, 5, 6};
  std::memcpy(bytes.data(), values, bytes.size());
  EXPECT_THAT((array + 1.0F).ToVector(), ElementsAre(5, 6, 7));
}

TEST(Export, ThrowsTheFailureOfTheLastWrite) {
  NDArray array({1});
  Event failed = Event::Make("a pull");
  SetWriter(array, failed);
  failed.Complete(std::make_exception_ptr(Error(ErrorCode::kUnavailable, "server 1 is dead")));
  EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { Export(array); }), HasSubstr("server 1 is dead"));
}

}  // namespace
}  // namespace sluice
