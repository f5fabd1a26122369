#include "train/memory/callback_memory.h"

#include <cmath>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "base/strings.h"

namespace sluice::train {

std::string ToText(const std::deque<Position>& positions) {
  std::vector<std::string> texts;
  for (const Position& position : positions) texts.push_back(StrCat(position.epoch, ":", position.step));
  return StrJoin(texts, " ");
}

std::optional<std::deque<Position>> ParsePositions(const std::string& text) {
  std::deque<Position> positions;
  if (text.empty()) return positions;
  for (const std::string& each : StrSplit(text, ' ')) {
    const std::vector<std::string> parts = StrSplit(each, ':');
    const auto epoch = ParseInt(parts[0]), step = parts.size() == 2 ? ParseInt(parts[1]) : std::nullopt;
    if (!epoch || !step || *epoch < 0 || *step < 0) return std::nullopt;
    positions.push_back({*epoch, *step});
  }
  return positions;
}

std::string Best::ToText() const {
  std::ostringstream text;
  text << std::hexfloat << score << ' ' << epochs_since;
  return text.str();
}

std::optional<Best> Best::Parse(const std::string& text) {
  char* end = nullptr;
  const double score = std::strtod(text.c_str(), &end);
  const auto since = ParseInt(StrTrim(end));
  if (end == text.c_str() || !(score == Best().score || std::isfinite(score)) || !since || *since < 0)
    return std::nullopt;
  return Best{score, *since};
}

}  // namespace sluice::train
