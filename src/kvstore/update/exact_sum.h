// A sum of arrays whose bits do not depend on the order in which they come, in memory that does not grow with
// their number.
//
// Floating point numbers are cut, on the way in, at fixed places of their binary expansion, as in J. Demmel
// and H. D. Nguyen, "Fast Reproducible Floating-Point Summation" (ARITH 2013): what lies between two places
// of one element adds up in a float64 of its own, with so many bits to spare that 65,536 addends are exact,
// and exact sums know no order. At the end they are added in float64, largest first, and rounded.
//
//   element            cut at                             exact while magnitudes             bytes an element
//   float32, 16 bits   2^20, 2^-18, 2^-56, 2^-94          add up to less than 2^73 (9e21)    32
//   float64            2^32, 2^-6, 2^-44, 2^-82, 2^-120   add up to less than 2^85 (4e25)    40
//   whole numbers      nowhere: they wrap                 always                             those of the
//   element
//
// A place where no number of a block of elements has anything takes neither time nor pages: float32 numbers
// between 1e-10 and 5e5 need the middle two.
//
// What lies below the last place (5e-29, 8e-37) is rounded off each addend; numbers beyond the range add up
// as float64 does, in the order in which they come. What is not finite stays so.
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
  // Frames of `elements` elements as they came: see SumBlock.
  void Add(std::span<const compression::Encoded> sources);
  // The sum of what was added and of these, in the type that computes (16-bit floats: float32), 64-byte
  // aligned; valid until the next call, which begins anew.
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
  Buffer sums_;  // block by block, in each the float64s of one place after those of the place before
  std::vector<uint8_t> in_use_;  // of each block the places that hold anything, as bits
};

}  // namespace sluice::kvstore
