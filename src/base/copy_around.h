// Copies that leave the caches to others.
#pragma once

#include <cstddef>

namespace sluice {

// Of arrays that are written one after the other: when more than this has followed, they have left the
// caches.
inline constexpr size_t kCachedBytes = size_t{32} << 20;

// As std::memcpy, without bringing `to` into the caches: for memory that nobody reads before it would have
// left them again. An ordinary copy reads each line of `to` before it writes it; on memory beyond the caches
// this one is up to twice as fast. On other processors than x86-64: memcpy.
void CopyAround(std::byte* to, const std::byte* from, size_t size);
// The same in pieces: other threads are told of what was copied only after EndCopiesAround by this thread.
void CopyPieceAround(std::byte* to, const std::byte* from, size_t size);
void EndCopiesAround();

}  // namespace sluice
