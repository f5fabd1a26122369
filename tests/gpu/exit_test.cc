// A process that ends while it has a card calls no function of CUDA's after the CUDA runtime has ended.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "gpu/devices_of_machine.h"
#include "sluice/ndarray.h"
#include "sluice/ops.h"
#include "tensor/pinned_memory.h"

namespace sluice::cuda {
namespace {

// Ends the process with 3 if CUDA is called between the exit handlers, where its runtime ends, and the end of
// static objects.
struct SeesLateCalls {
  ~SeesLateCalls() {
    if (machine != nullptr && machine->calls() != calls_at_exit) _exit(3);
  }
  emulation::Machine* machine = nullptr;
  int64_t calls_at_exit = 0;
} sees_late_calls;

void ComputeOnACard() {
  sees_late_calls.machine = new emulation::Machine;
  DevicesOptions options;
  options.make_gpu = [](int id, bool) {
    std::atexit(
        [] { sees_late_calls.calls_at_exit = sees_late_calls.machine->calls(); });  // as CUDA's runtime
    return MakeCard(id);
  };
  Devices::SetDefault(std::make_shared<Devices>(options));
  static const NDArray x = NDArray::From({9, 10}, {2}, gpu(0)) + 1;
  static const NDArray pinned = x.AsInContext(cpu_pinned(0));
  static std::vector<std::byte> range(4096);
  Devices::Default()->pinned_memory()->Add(range);
  if (pinned.ToVector<float>()[1] != 11) _exit(4);
  static const struct RemovesRange {
    ~RemovesRange() { memory->Remove(range); }
    const std::shared_ptr<PinnedMemory> memory = Devices::Default()->pinned_memory();
  } removes_range;
}

// GoogleTest runs suites of this ending first: no other test may have made a card, which registers a handler.
TEST(CardDeathTest, IsLeftToTheSystemWhenTheProcessEnds) {
  EXPECT_EXIT((ComputeOnACard(), std::exit(0)), ::testing::ExitedWithCode(0), "");
  const auto exit_elsewhere = [] {
    ComputeOnACard();
    std::thread([] { std::exit(0); }).join();
  };
  EXPECT_EXIT(exit_elsewhere(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace sluice::cuda
