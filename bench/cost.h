// Estimates what an operation has to do from its shapes: floating-point operations and bytes of memory.
#pragma once

#include <memory>
#include <string>

#include "tensor/kernels.h"

namespace sluice::bench {

// `bytes` counts each array once per kernel, as if nothing were read twice. `flops` counts an elementwise
// function, such as exp, as one operation per element, however long it takes.
struct Cost {
  double flops = 0, bytes = 0;
  std::string shape;  // the shape of the first kernel: "64x20x12x12 to 50, 5x5"
};

// Adds to the cost of the operation that the calling thread is running.
void AddCost(double flops, double bytes, const std::string& shape);
// Returns the cost that the calling thread has added since its last call, and resets it.
Cost TakeCost();

// Returns kernels that call AddCost and then `kernels`, which must outlive them.
std::unique_ptr<Kernels> CountCosts(Kernels& kernels);

}  // namespace sluice::bench
