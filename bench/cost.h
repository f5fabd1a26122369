// What an operation has to do, by its shapes: floating-point operations and bytes.
#pragma once

#include <memory>
#include <string>

#include "tensor/kernels.h"

namespace sluice::bench {

// Each array once, read or written, as if it were never read twice. An elementwise function is one operation
// an element, whatever it takes.
struct Cost {
  double flops = 0, bytes = 0;
  std::string shape;  // of the first kernel: "64x20x12x12 to 50, 5x5"
};

// To the operation that this thread is running.
void AddCost(double flops, double bytes, const std::string& shape);
// What was added since the last call.
Cost TakeCost();

// `kernels`, and what they have to do is added up. `kernels` must outlive it.
std::unique_ptr<Kernels> CountCosts(Kernels& kernels);

}  // namespace sluice::bench
