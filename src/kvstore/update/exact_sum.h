// A sum of arrays whose bits do not depend on the order in which the
// arrays are added, in memory that does not grow with their number.
//
// Floating point numbers are cut, when they are added, at fixed places of their binary
// expansion, as in J. Demmel and H. D. Nguyen, "Fast Reproducible Floating-Point Summation"
// (ARITH 2013). For each element, the digits between two places are summed in a float64 of
// their own. That has enough spare bits to sum 65,536 addends exactly, and exact sums do not
// depend on the order. At the end these sums are added in float64, largest first, and rounded.
//
//  element           cut at                             exact while magnitudes             bytes an element
//  float32, 16 bits  2^20, 2^-18, 2^-56, 2^-94          add up to less than 2^73 (9e21)    32
//  float64           2^32, 2^-6, 2^-44, 2^-82, 2^-120   add up to less than 2^85 (4e25)    40
//  integers          nowhere: they wrap                 always                             as the element
//
// A place in which no number of a block of elements has digits takes neither time
// nor pages: float32 numbers between 1e-10 and 5e5 need the middle two places.
//
// Digits below the last place (5e-29, 8e-37) are rounded off each addend.
// Numbers beyond the range are summed as in float64, in the order in which
// they are added. A sum with an addend that is not finite is not finite.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "compression/codec.h"
#include "sluice/dtype.h"

namespace sluice::kvstore {

class ExactSum {
 public:
  ExactSum(DType dtype, size_t elements, std::shared_ptr<Allocator> memory = HeapAllocator());
  // Adds frames of `elements` elements each, in any encoding that SumBlock takes.
  void Add(std::span<const compression::Encoded> sources);
  // Returns the sum of all frames added so far and of `sources`, 64-byte aligned, in the type that
  // computes (float32 for 16-bit floats). It is valid until the next call, which starts a new sum.
  const std::byte* Take(std::span<const compression::Encoded> sources = {});

 private:
  template <typename T>
  const std::byte* Values(const compression::Encoded& source, size_t first, size_t n, T* decoded) const;
  template <typename T>
  void AddFloating(std::span<const compression::Encoded> sources, bool last);
  template <typename T>
  void AddWhole(std::span<const compression::Encoded> sources);
  void Pass(std::span<const compression::Encoded> sources, bool last);

  const DType dtype_;
  const size_t elements_;
  bool empty_ = true;
  // Block by block; within a block, the float64s of each place follow those of the place before.
  Buffer sums_;
  // By block: bit i is set when place i holds digits.
  std::vector<uint8_t> in_use_;
};

}  // namespace sluice::kvstore
