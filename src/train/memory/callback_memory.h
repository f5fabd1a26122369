// What callbacks remember, as texts in a checkpoint.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>

#include "sluice/sampler.h"

namespace sluice::train {

// "1:200 2:0"; nothing for what no callback has written.
std::string ToText(const std::deque<Position>& positions);
std::optional<std::deque<Position>> ParsePositions(const std::string& text);

// The best test score so far, its sign turned where lower is better, and how many epochs ago that was.
struct Best {
  double score = -std::numeric_limits<double>::infinity();  // finite once there was one
  int64_t epochs_since = 0;
  std::string metric = "accuracy";  // whose score it is

  // Bit by bit: what is recalled is what was known.
  std::string ToText() const;
  static std::optional<Best> Parse(const std::string& text);
};

}  // namespace sluice::train
