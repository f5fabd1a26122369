// The default devices while a test runs: those of a test machine.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "gpu/runtime/machine.h"
#include "tensor/cuda/device.h"
#include "tensor/devices.h"

namespace sluice::cuda {

class DevicesOfMachine {
 public:
  explicit DevicesOfMachine(const emulation::MachineOptions& options = {}, DevicesOptions devices = {})
      : machine_(options) {
    devices.make_gpu = MakeCard;
    Devices::SetDefault(std::make_shared<Devices>(devices));
  }
  // No array of a card is left. Expects that everything has been given back.
  ~DevicesOfMachine() {
    Devices::SetDefault(nullptr);
    EXPECT_EQ(machine_.Leaks(), "");
  }
  emulation::Machine* operator->() { return &machine_; }

 private:
  emulation::Machine machine_;
};

}  // namespace sluice::cuda
