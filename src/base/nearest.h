// "did you mean ...?"
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// Which of `names` `text` is most like, by the letters that would have to be changed, left out or added; none
// where that would be half of it or more than three.
std::optional<std::string> Nearest(std::string_view text, const std::vector<std::string>& names);

}  // namespace sluice
