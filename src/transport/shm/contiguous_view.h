// Memory that peers lent in pieces, mapped once more, one piece behind the other: what reads it finds one
// array. No byte is copied; mremap(2) with an old size of 0 doubles a mapping.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/pool_allocator.h"

namespace sluice::transport {

// For one array, whose pieces come from the same few places again and again: a lender writes to two in turns.
// Thread safety: one thread at a time; frames may be let go of on any.
class ContiguousView {
 public:
  // `records`: for what a frame takes.
  explicit ContiguousView(std::shared_ptr<Allocator> records) : records_(std::move(records)) {}

  // The pieces as one frame, which holds them. nullopt: they are no pages, of mappings, or they come from
  // ever other places, so that copying them is cheaper.
  std::optional<Frame> Join(std::span<const Frame> pieces);

 private:
  class View;
  std::shared_ptr<const View> Find(std::span<const Frame> pieces);

  // More than lenders take turns with.
  static constexpr size_t kViews = 4;
  // So many views in a row that none was used again: no more are made.
  static constexpr int kTrials = 16;

  const std::shared_ptr<Allocator> records_;
  std::vector<std::shared_ptr<const View>> views_;  // the one used last comes first
  int trials_ = kTrials;
};

}  // namespace sluice::transport
