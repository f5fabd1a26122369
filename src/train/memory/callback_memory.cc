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
  text << std::hexfloat << score << ' ' << evaluations_since;
  if (metric != "accuracy") text << ' ' << metric;
  return text.str();
}

std::optional<Best> Best::Parse(const std::string& text) {
  const std::vector<std::string> parts = StrSplit(text, ' ');
  if (parts.size() < 2) return std::nullopt;
  char* end = nullptr;
  Best best;
  best.score = std::strtod(parts[0].c_str(), &end);
  const auto since = ParseInt(parts[1]);
  if (parts[0].empty() || *end != 0 || !since || *since < 0) return std::nullopt;
  best.evaluations_since = *since;
  if (parts.size() > 2) best.metric = StrJoin(std::vector(parts.begin() + 2, parts.end()), " ");
  const bool is_share = best.score >= 0 && best.score <= 1;
  const bool fits = best.metric == "accuracy" ? is_share : std::isfinite(best.score);
  return fits || best.score == Best().score ? std::optional(best) : std::nullopt;
}

}  // namespace sluice::train
