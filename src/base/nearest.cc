#include "base/nearest.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string> Nearest(std::string_view text, const std::vector<std::string>& names) {
  std::optional<std::string> nearest;
  // A short name that needs changes in half of its letters has hardly anything in common with `text`.
  size_t best = std::min<size_t>(4, (text.size() + 1) / 2);
  for (const std::string& name : names) {
    const size_t distance = EditDistance(name, text);
    if (distance >= best) continue;
    best = distance;
    nearest = name;
  }
  return nearest;
}

}  // namespace sluice
