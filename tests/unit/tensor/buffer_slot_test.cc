// Arrays that adopt memory from outside in place of a copy: tensor/access.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "tensor/access.h"
#include "tensor/storage.h"
#include "unit/tensor/gate.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

// A lease of the given values.
struct TestLease final : Lease {
  explicit TestLease(std::vector<float> of) : Lease(nullptr), values(std::move(of)) {}
  std::vector<float> values;
};
// Leases its values out once; is_back() once nobody holds the lease.
struct Owner {
  explicit Owner(std::vector<float> values)
      : lease(std::make_shared<TestLease>(std::move(values))), held(lease) {}
  Frame LeaseOut() {
    const Bytes bytes = std::as_bytes(std::span(lease->values));
    return Frame::Leased(bytes, std::exchange(lease, nullptr));
  }
  bool is_back() const { return held.expired(); }
  std::shared_ptr<TestLease> lease;
  std::weak_ptr<TestLease> held;
};

// As a pull does it: the leased frame is adopted when the array's uses are over and the gate opens.
class Delivery {
 public:
  Delivery(NDArray& array, Owner& owner) : buffer_slot_(BufferSlotOf(array)), frame_(owner.LeaseOut()) {
    LetAdopt(array);
    uses_ = PendingUses(array);
    SetWriter(array, landed_);
  }
  void Deliver() {
    for (const Event& use : uses_) use.Wait();
    buffer_slot_->Adopt(std::move(frame_));
    landed_.Complete();
  }

 private:
  BufferSlot* const buffer_slot_;
  Frame frame_;
  Events uses_;
  const Event landed_ = Event::Make("landing");
};

void AdoptIn(NDArray& array, Owner& owner) {
  Delivery(array, owner).Deliver();
}

TEST(BufferSlot, AnArrayReadsWhatItAdopted) {
  NDArray array = NDArray::From({1, 2, 3}, {3});
  Owner owner({4, 5, 6});
  AdoptIn(array, owner);
  EXPECT_THAT(array.ToVector(), ElementsAre(4, 5, 6));
  EXPECT_THAT((array + array).ToVector(), ElementsAre(8, 10, 12));
  EXPECT_THAT(array.SliceRows(1, 3).ToVector(), ElementsAre(5, 6));
  EXPECT_EQ(HostBytes(array).data(), HostFrame(array).data());
  EXPECT_FALSE(owner.is_back());
}

TEST(BufferSlot, TheNextAdoptionReturnsTheLastLease) {
  NDArray array = NDArray::From({1, 2}, {2});
  Owner first({3, 4}), second({5, 6});
  AdoptIn(array, first);
  AdoptIn(array, second);
  EXPECT_TRUE(first.is_back());
  EXPECT_THAT(array.ToVector(), ElementsAre(5, 6));
  array = NDArray();
  WaitAll();
  EXPECT_TRUE(second.is_back());
}

TEST(BufferSlot, WorkReadsWhatWasThereWhenItWasIssued) {
  NDArray array = NDArray::From({1, 2}, {2});
  Owner first({3, 4}), second({5, 6});
  AdoptIn(array, first);
  Gate gate;
  NDArray sum = NDArray::From({10, 20}, {2});
  sum.WaitToRead();
  SetWriter(sum, gate.event());
  sum += array;
  Delivery landing(array, second);
  const NDArray later = array * 2;
  EXPECT_FALSE(first.is_back());
  gate.Open();
  landing.Deliver();
  EXPECT_THAT(sum.ToVector(), ElementsAre(13, 24));
  EXPECT_THAT(later.ToVector(), ElementsAre(10, 12));
  EXPECT_TRUE(first.is_back());
}

TEST(BufferSlot, WhoWritesGetsTheArraysOwnMemoryWithItsValues) {
  const std::vector<std::pair<std::function<void(NDArray&)>, std::vector<float>>> writes = {
      {[](NDArray& array) { array += array; }, {8, 10, 12}},
      {[](NDArray& array) { array.SliceRows(1, 2).Fill(9); }, {4, 9, 6}},
      {[](NDArray& array) { array.Fill(7); }, {7, 7, 7}},
      {[](NDArray& array) {
         NDArray::From({1, 0, 1}, {3}).CopyTo(&array);
       },
       {1, 0, 1}},
      {[](NDArray& array) { std::memset(MutableHostBytes(array).data(), 0, sizeof(float)); }, {0, 5, 6}},
  };
  for (const auto& [write, expected] : writes) {
    NDArray array = NDArray::From({1, 2, 3}, {3});
    Owner owner({4, 5, 6});
    const std::shared_ptr<TestLease> seen = owner.lease;
    AdoptIn(array, owner);
    write(array);
    EXPECT_EQ(array.ToVector(), expected);
    EXPECT_THAT(seen->values, ElementsAre(4, 5, 6)) << "somebody else's memory was written to";
  }
}

TEST(BufferSlot, AFrameKeepsTheValuesItWasMadeOf) {
  NDArray array = NDArray::From({1, 2}, {2});
  Owner first({3, 4}), second({5, 6});
  AdoptIn(array, first);
  Frame frame = HostFrame(array);
  AdoptIn(array, second);
  EXPECT_EQ(reinterpret_cast<const float*>(frame.data())[1], 4);
  EXPECT_FALSE(first.is_back());
  frame = Frame();
  EXPECT_TRUE(first.is_back());
}

TEST(BufferSlot, BytesAreThoseOfWritesIssuedBefore) {
  NDArray array = NDArray::From({1, 2}, {2});
  Owner first({3, 4}), second({5, 6});
  AdoptIn(array, first);
  Delivery landing(array, second);
  std::thread lands([&] { landing.Deliver(); });
  EXPECT_EQ(reinterpret_cast<const float*>(HostBytes(array).data())[0], 5);
  lands.join();
}

TEST(BufferSlot, WholeFloatingArraysOnCpuAlone) {
  NDArray array = NDArray::From({1, 2, 3, 4}, {4}), half = array.SliceRows(0, 2),
          square = array.Reshape({2, 2}), pinned = NDArray({4}, cpu_pinned(0));
  EXPECT_EQ(BufferSlotOf(half), nullptr);
  EXPECT_EQ(BufferSlotOf(pinned), nullptr);
  NDArray ids({4}, cpu(0), DType::kInt64);
  EXPECT_EQ(BufferSlotOf(ids), nullptr) << "whole numbers may be checked before they are used";
  EXPECT_NE(BufferSlotOf(square), nullptr);
  EXPECT_NE(BufferSlotOf(array), nullptr);
}

TEST(BufferSlot, ItsOwnMemoryIsAsGoodAsWhatItTakesBack) {
  NDArray array = NDArray::From({1, 2}, {2});
  Owner owner({3, 4});
  AdoptIn(array, owner);
  const MutableBytes own = BufferSlotOf(array)->RestoreOwnBuffer();
  EXPECT_TRUE(owner.is_back());
  const float values[] = {7, 8};
  std::memcpy(own.data(), values, own.size());
  EXPECT_THAT(array.ToVector(), ElementsAre(7, 8));
}

}  // namespace
}  // namespace sluice
