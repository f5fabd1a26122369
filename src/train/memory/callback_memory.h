// What callbacks remember, as the texts that a checkpoint keeps.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>

#include "sluice/sampler.h"

namespace sluice::train {

// Converts positions to text, "1:200 2:0", and back. ParsePositions returns nullopt for a text that
// ToText cannot have written.
std::string ToText(const std::deque<Position>& positions);
std::optional<std::deque<Position>> ParsePositions(const std::string& text);

// The best test score so far, negated where lower is better, and how many evaluations came after it.
struct Best {
  double score = -std::numeric_limits<double>::infinity();  // -infinity before the first finite score
  int64_t evaluations_since = 0;
  std::string metric = "accuracy";  // the metric of the score

  // Writes the score as hexadecimal digits, so that Parse returns it to the last bit.
  std::string ToText() const;
  static std::optional<Best> Parse(const std::string& text);
};

}  // namespace sluice::train
