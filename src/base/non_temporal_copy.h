// Copies with non-temporal stores, which leave the processor's caches to other data.
#pragma once

#include <cstddef>

namespace sluice {

// The assumed size of the caches: an array has left them once more than this many
// bytes were written after it.
inline constexpr size_t kCacheBytes = size_t{32} << 20;

// Like std::memcpy, but does not bring `to` into the caches: for memory that is not read before it would have
// left them again. An ordinary copy reads each cache line of `to` before it writes the line; on memory that
// exceeds the caches this one is up to twice as fast. On processors other than x86-64 it is memcpy.
void NonTemporalCopy(std::byte* to, const std::byte* from, size_t size);
// Copies one of several pieces in the same way. This thread must call FinishNonTemporalCopies before it makes
// the copied bytes visible to other threads.
void NonTemporalCopyPiece(std::byte* to, const std::byte* from, size_t size);
void FinishNonTemporalCopies();

}  // namespace sluice
