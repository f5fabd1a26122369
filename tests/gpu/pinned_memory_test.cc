// The memory of cpu_pinned(i) and of ranges that others own, on a test machine: when it is pinned, and what
// becomes of it without memory to pin.
#include "tensor/pinned_memory.h"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>

#include "gpu/devices_of_machine.h"
#include "sluice/ndarray.h"
#include "tensor/access.h"

namespace sluice::cuda {
namespace {

std::vector<float> Numbers() {
  std::vector<float> values(1000);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

std::optional<emulation::Memory::Block> BlockOf(DevicesOfMachine& machine, const NDArray& array) {
  return machine->memory().Find(HostBytes(array).data(), HostBytes(array).size());
}

TEST(PinnedMemory, ArraysOnCpuPinnedAreThereOnceACardIsUsed) {
  DevicesOfMachine machine({.cards = 2});
  const int64_t calls = machine->calls();
  NDArray before = NDArray::Empty({1000}, cpu_pinned(0));
  before.Fill(1);
  before.WaitToRead();
  EXPECT_EQ(machine->calls(), calls) << "nothing is asked of CUDA";
  EXPECT_FALSE(BlockOf(machine, before));
  const NDArray x = NDArray::From(Numbers(), {1000}, gpu(1));
  EXPECT_FALSE(machine->IsOpen(0));
  const NDArray copy = x.AsInContext(cpu_pinned(1));
  EXPECT_EQ(copy.ToVector<float>()[999], 999);
  ASSERT_TRUE(BlockOf(machine, copy));
  EXPECT_EQ(BlockOf(machine, copy)->kind, emulation::Memory::Kind::kPinned);
  machine->SetOutOfMemory(true);
  const NDArray large = NDArray({8 << 20}, cpu_pinned(1));  // more than a slab
  large.WaitToRead();
  EXPECT_FALSE(BlockOf(machine, large)) << "it comes from the heap";
  machine->SetOutOfMemory(false);
}

TEST(PinnedMemory, RangesOfOthersArePinnedWhileTheyAreAdded) {
  DevicesOfMachine machine({.cards = 2});
  const std::shared_ptr<PinnedMemory> pinned = Devices::Default()->pinned_memory();
  Buffer first(1 << 16), second(1 << 16), third(1 << 16);
  pinned->Add(first.bytes());
  EXPECT_FALSE(machine->memory().Find(first.data()));
  Devices::Default()->Get(gpu(1));
  pinned->Add(second.bytes());
  pinned->AddReadOnly(third.bytes());
  EXPECT_FALSE(machine->memory().Find(third.data())) << "no card reads it yet";
  pinned->WillRead(third.bytes().subspan(100, 8));
  for (Buffer* const buffer : {&first, &second, &third}) {
    ASSERT_TRUE(machine->memory().Find(buffer->data(), buffer->size()));
    pinned->Remove(buffer->bytes());
    EXPECT_FALSE(machine->memory().Find(buffer->data()));
  }
  machine->SetOutOfMemory(true);
  pinned->Add(third.bytes());
  EXPECT_FALSE(machine->memory().Find(third.data()));
  pinned->Remove(third.bytes());
  machine->SetOutOfMemory(false);
  EXPECT_FALSE(machine->IsOpen(0));
}

}  // namespace
}  // namespace sluice::cuda
