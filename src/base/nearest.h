// Finds the name for a message's "did you mean ...?".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// Returns the one of `names` that has the smallest edit distance to `text` (letters changed,
// removed or added; of equal ones the first). Returns nullopt if the distance is at least
// half of text's length or more than 3.
std::optional<std::string> Nearest(std::string_view text, const std::vector<std::string>& names);

}  // namespace sluice
