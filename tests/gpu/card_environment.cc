// A test machine that lives as long as the program, with as many cards as the largest job of the store
// contract has.
#include "contract/job.h"
#include "gpu/runtime/machine.h"
#include "gpu/runtime/nccl.h"

namespace sluice::testing {
namespace {

class Cards : public ::testing::Environment {
 public:
  void SetUp() override {
    machine_ = std::make_unique<emulation::Machine>(emulation::MachineOptions{.cards = 100, .seed = 1});
    nccl_ = std::make_unique<emulation::Nccl>();
    Devices::SetDefault(std::make_shared<Devices>(OptionsOfDevices()));
  }
  void TearDown() override {
    Devices::SetDefault(nullptr);
    EXPECT_EQ(machine_->Leaks(), "");
    EXPECT_EQ(nccl_->communicators(), 0);
    nccl_ = nullptr;
    machine_ = nullptr;
  }

 private:
  std::unique_ptr<emulation::Machine> machine_;
  std::unique_ptr<emulation::Nccl> nccl_;
};
[[maybe_unused]] const auto* const cards = ::testing::AddGlobalTestEnvironment(new Cards);

}  // namespace
}  // namespace sluice::testing
