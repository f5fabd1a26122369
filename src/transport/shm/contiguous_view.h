// Maps leased pieces of memory a second time, one directly behind the other, so that a reader finds one
// array. No byte is copied: mremap(2) with an old size of 0 duplicates a mapping.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/pool_allocator.h"

namespace sluice::transport {

// Serves one array, whose pieces come from the same few places again and again: the leases' owner alternates
// between two buffers. Thread safety: one thread at a time; the frames may be released on any thread.
class ContiguousView {
 public:
  // `records`: allocates what a frame needs beside its bytes.
  explicit ContiguousView(std::shared_ptr<Allocator> records) : records_(std::move(records)) {}

  // Returns the pieces as one frame, which holds them; a single piece is returned as it is. Returns nullopt
  // when the pieces are not whole pages of mappings, when the kernel refuses the mapping, or when they come
  // from ever different places, so that a copy is cheaper.
  std::optional<Frame> Join(std::span<const Frame> pieces);

 private:
  class View;
  std::shared_ptr<const View> Find(std::span<const Frame> pieces);

  // More than the buffers between which an owner alternates.
  static constexpr size_t kViews = 4;
  // After so many new views in a row without one that was used again, no more are made.
  static constexpr int kTrials = 16;

  const std::shared_ptr<Allocator> records_;
  std::vector<std::shared_ptr<const View>> views_;  // the most recently used first
  int trials_ = kTrials;
};

}  // namespace sluice::transport
