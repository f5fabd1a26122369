// Copies that leave the caches to others.
#pragma once

#include <cstddef>

namespace sluice {

// Of arrays that are written one after the other: when more than this has followed, they have left the
// caches.
inline constexpr size_t kCacheBytes = size_t{32} << 20;

// As std::memcpy, without bringing `to` into the caches: for memory that nobody reads before it would have
// left them again. An ordinary copy reads each line of `to` before it writes it; on memory beyond the caches
// this one is up to twice as fast. On other processors than x86-64: memcpy.
void NonTemporalCopy(std::byte* to, const std::byte* from, size_t size);
// The same in pieces: other threads are told of what was copied only after FinishNonTemporalCopies by this
// thread.
void NonTemporalCopyPiece(std::byte* to, const std::byte* from, size_t size);
void FinishNonTemporalCopies();

}  // namespace sluice
