// Images with their channels last give the same bits as row-major ones, whoever looks.
#include "tensor/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <limits>

#include "autograd/ops.h"
#include "base/rng.h"
#include "sluice/autograd.h"
#include "tensor/access.h"
#include "tensor/devices.h"
#include "tensor/storage.h"

namespace sluice {
namespace {

using internal::InLayout;
using internal::LayoutOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr auto kLast = ImageLayout::kChannelsLast;
constexpr auto kRowMajor = ImageLayout::kRowMajor;

NDArray RandomArray(const Shape& shape, Rng* rng) {
  std::vector<float> values(static_cast<size_t>(shape.size()));
  // Few different values: windows have equal ones.
  for (float& value : values) value = static_cast<float>(rng->Below(9)) - 4;
  return NDArray::From(std::span<const float>(values), shape);
}

TEST(LayoutTest, ElementsLieWithTheChannelsLast) {
  const NDArray x = NDArray::From({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {1, 2, 2, 3});
  const NDArray last = InLayout(x, kLast);
  ASSERT_EQ(LayoutOf(last), kLast);
  last.WaitToRead();
  const float* lie = internal::ImageDataOf(last);
  EXPECT_THAT(std::vector<float>(lie, lie + 12), ElementsAre(1, 7, 2, 8, 3, 9, 4, 10, 5, 11, 6, 12));
  EXPECT_EQ(LayoutOf(x), kRowMajor) << "the original stays";
  EXPECT_THAT(InLayout(last, kRowMajor).ToVector(), ElementsAreArray(x.ToVector()));
  EXPECT_EQ(LayoutOf(last), kLast);
  EXPECT_THAT(last.ToVector(), ElementsAreArray(x.ToVector()));
  EXPECT_EQ(LayoutOf(last), kRowMajor) << "who reads it puts it back";
}

TEST(LayoutTest, OneChannelOrOnePixelNeedsNoReordering) {
  for (const Shape& shape : {Shape{3, 1, 4, 5}, Shape{3, 7, 1, 1}, Shape{0, 3, 4, 4}, Shape{2, 6}}) {
    const NDArray x(shape);
    EXPECT_TRUE(InLayout(x, kLast).SharesStorage(x)) << shape;
    EXPECT_EQ(LayoutOf(internal::EmptyIn(kLast, shape, cpu(0))), kRowMajor) << shape;
  }
}

TEST(LayoutTest, RowsOfImagesStayWholeAndOtherViewsArePutBack) {
  Rng rng(3);
  const NDArray x = RandomArray({4, 3, 2, 5}, &rng);
  NDArray last = InLayout(x, kLast);
  const NDArray rows = last.SliceRows(1, 3);
  EXPECT_EQ(LayoutOf(rows), kLast);
  EXPECT_THAT((rows + rows).ToVector(), ElementsAreArray((x.SliceRows(1, 3) * 2.0f).ToVector()));
  EXPECT_EQ(LayoutOf(last), kLast);
  const NDArray flat = last.Reshape({4, 30});
  EXPECT_THAT(flat.ToVector(), ElementsAreArray(x.ToVector()));
  EXPECT_EQ(LayoutOf(last), kRowMajor);
  EXPECT_THAT(rows.ToVector(), ElementsAreArray(x.SliceRows(1, 3).ToVector()));
}

TEST(LayoutTest, WhoReadsOrWritesFromOutsideFindsRowMajor) {
  Rng rng(4);
  const NDArray x = RandomArray({2, 3, 4, 4}, &rng);
  NDArray last = InLayout(x, kLast);
  ReadyToRead(last).Wait();
  const auto* bytes = reinterpret_cast<const float*>(HostBytes(last).data());
  EXPECT_THAT(std::vector<float>(bytes, bytes + last.size()), ElementsAreArray(x.ToVector()));
  last = InLayout(x, kLast);
  last.Fill(7);
  EXPECT_THAT(last.ToVector(), ElementsAreArray(std::vector<float>(96, 7.0f)));
  last = InLayout(x, kLast);
  last += x;
  EXPECT_THAT(last.ToVector(), ElementsAreArray((x * 2.0f).ToVector()));
}

struct Outcome {
  std::vector<float> out, grad;
};
using ImageFunction = std::function<NDArray(const NDArray&)>;

// Runs f on x in this layout, and backward with a head gradient in the other layout.
Outcome Run(const ImageFunction& f, const NDArray& x, ImageLayout layout) {
  NDArray leaf = x.Copy();
  autograd::AttachGrad(leaf);
  NDArray y;
  {
    const autograd::RecordScope record;
    NDArray in = InLayout(leaf, layout);
    in.set_node(leaf.node());
    y = f(in);
  }
  NDArray head = NDArray::Empty(y.shape());
  head.Fill(0.5);
  head = InLayout(y.Copy() + head, layout == kLast ? kRowMajor : kLast);
  autograd::Backward({y}, {head});
  return {y.ToVector(), autograd::Grad(leaf).ToVector()};
}

void ExpectSame(const ImageFunction& f, const NDArray& x) {
  const Outcome row_major = Run(f, x, kRowMajor), last = Run(f, x, kLast);
  EXPECT_EQ(row_major.out, last.out);
  EXPECT_EQ(row_major.grad, last.grad);
}

TEST(LayoutTest, PoolingGivesTheSameBits) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto below = [&](uint64_t n) { return static_cast<int64_t>(rng.Below(n)); };
    ops::Window2D w{.height = 1 + below(3),
                    .width = 1 + below(3),
                    .stride_height = 1 + below(3),
                    .stride_width = 1 + below(3)};
    w.pad_height = below(static_cast<uint64_t>(w.height));
    w.pad_width = below(static_cast<uint64_t>(w.width));
    const NDArray x = RandomArray({1 + below(3), 1 + below(40), 3 + below(6), 3 + below(6)}, &rng);
    ExpectSame([&](const NDArray& in) { return ops::MaxPool2D(in, w); }, x);
    ExpectSame([&](const NDArray& in) { return ops::AvgPool2D(in, w); }, x);
  }
  Rng rng(60);
  const NDArray x = RandomArray({2, 70, 11, 10}, &rng);
  const ops::Window2D large{.height = 9, .width = 8, .pad_height = 2, .pad_width = 1};
  ExpectSame([&](const NDArray& in) { return ops::AvgPool2D(in, large); }, x);
}

TEST(LayoutTest, TheMaximumIsTheLastNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), low = -std::numeric_limits<float>::infinity();
  const NDArray x = NDArray::From({nan, 1, nan, 2, low, low, low, low}, {1, 2, 2, 2});
  for (const ImageLayout layout : {kRowMajor, kLast}) {
    NDArray in = InLayout(x, layout), out;
    autograd::AttachGrad(in);
    {
      const autograd::RecordScope record;
      out = ops::MaxPool2D(in, {.height = 2, .width = 2});
    }
    EXPECT_THAT(out.ToVector(), ElementsAre(::testing::IsNan(), low));
    autograd::Backward({out});
    EXPECT_THAT(autograd::Grad(in).ToVector(), ElementsAre(0, 0, 1, 0, 1, 0, 0, 0));
  }
}

TEST(LayoutTest, ElementwiseOperationsGiveTheSameBits) {
  Rng rng(5);
  const NDArray x = RandomArray({2, 5, 3, 4}, &rng), other = RandomArray({2, 5, 3, 4}, &rng);
  ExpectSame([](const NDArray& in) { return ops::Tanh(in); }, x);
  ExpectSame([](const NDArray& in) { return ops::Gelu(in); }, x);
  ExpectSame([&](const NDArray& in) { return in * other + in; }, x);
  ExpectSame([&](const NDArray& in) { return other - in * 3.0f; }, x);
  ExpectSame([](const NDArray& in) { return ops::Flatten(in); }, x);
  ExpectSame([](const NDArray& in) { return ops::Dropout(in, 0.5, 7, 0); }, x);
  for (size_t axis = 0; axis < 4; ++axis) {
    ExpectSame([&](const NDArray& in) { return ops::Concat({in, other}, axis); }, x);
    ExpectSame([&](const NDArray& in) { return ops::Concat({other, in, in}, axis); }, x);
    ExpectSame([&](const NDArray& in) { return ops::Slice(in, axis, 1, 2); }, x);
    ExpectSame([&](const NDArray& in) { return ops::Slice(in, axis, 1, in.shape()[axis]); }, x);
  }
}

// Counts what a device's stream reorders.
class ReorderCounter final : public Device {
 public:
  ReorderCounter(std::shared_ptr<Device> device, std::shared_ptr<std::atomic<int>> count)
      : device_(std::move(device)), stream_(device_->stream(), std::move(count)) {}
  sluice::Stream& stream() override { return stream_; }
  const std::shared_ptr<Allocator>& allocator() override { return device_->allocator(); }
  const std::shared_ptr<Allocator>& records() override { return device_->records(); }
  Kernels& kernels() override { return device_->kernels(); }
  void SetShare(const CpuShare& share) override { device_->SetShare(share); }

 private:
  class CountingStream final : public sluice::Stream {
   public:
    CountingStream(sluice::Stream& stream, std::shared_ptr<std::atomic<int>> count)
        : stream_(stream), count_(std::move(count)) {}
    Event Enqueue(Label what, std::span<const Event> after, Work work) override {
      if (what.text() == "reorder") ++*count_;
      return stream_.Enqueue(std::move(what), after, std::move(work));
    }
    void Drain(Duration timeout) override { stream_.Drain(timeout); }

   private:
    sluice::Stream& stream_;
    const std::shared_ptr<std::atomic<int>> count_;
  };
  const std::shared_ptr<Device> device_;
  CountingStream stream_;
};

class ReorderingsTest : public ::testing::Test {
 protected:
  ReorderingsTest() {
    Devices::SetDefault(std::make_shared<Devices>(DevicesOptions{
        .wrap_device = [count = count_](std::shared_ptr<Device> device) -> std::shared_ptr<Device> {
          return std::make_shared<ReorderCounter>(std::move(device), count);
        }}));
  }
  ~ReorderingsTest() override { Devices::SetDefault(nullptr); }

  // How many images a forward and a backward reorder.
  int Count(const std::function<NDArray(const NDArray&)>& network) {
    Rng rng(6);
    NDArray x = RandomArray({2, 1, 12, 12}, &rng);  // one channel: lies both ways
    NDArray first = RandomArray({4, 1, 3, 3}, &rng), second = RandomArray({5, 4, 3, 3}, &rng);
    for (NDArray* each : {&x, &first, &second}) autograd::AttachGrad(*each);
    *count_ = 0;
    NDArray out;
    {
      const autograd::RecordScope record;
      const NDArray images = ops::Conv2D(network(ops::Conv2D(x, first, {}, {})), second, {}, {});
      out = ops::AvgPool2D(images, {.height = images.shape()[2], .width = images.shape()[3]});
    }
    autograd::Backward({out});
    autograd::Grad(first).WaitToRead();
    return *count_;
  }

 private:
  const std::shared_ptr<std::atomic<int>> count_ = std::make_shared<std::atomic<int>>(0);
};

TEST_F(ReorderingsTest, AreNeededByNothingBetweenConvolutions) {
  EXPECT_EQ(Count([](const NDArray& in) { return in; }), 0);
  EXPECT_EQ(Count([](const NDArray& in) { return ops::Tanh(in); }), 0);
  EXPECT_EQ(Count([](const NDArray& in) { return in + in * 2.0f; }), 0);
  EXPECT_EQ(Count([](const NDArray& in) { return ops::MaxPool2D(in, {.height = 2, .width = 2}); }), 0);
  EXPECT_EQ(Count([](const NDArray& in) { return ops::Dropout(in, 0.5, 7, 0); }), 0);
  EXPECT_EQ(Count([](const NDArray& in) {
              return ops::Concat({ops::Slice(in, 1, 2, 4), ops::Slice(in, 1, 0, 2)}, 1);
            }),
            0);
  EXPECT_EQ(Count([](const NDArray& in) {
              return ops::Concat({ops::Slice(in, 0, 1, 2), ops::Slice(in, 0, 0, 1)}, 0);
            }),
            0);
  // Rows of pixels are another matter: there and back, forward and backward.
  EXPECT_GE(Count([](const NDArray& in) { return ops::Slice(in, 2, 1, 9); }), 2);
}

}  // namespace
}  // namespace sluice
