#include "train/memory/epoch_sums.h"

#include <cstdlib>
#include <sstream>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::train {

std::string EpochSums::ToText() const {
  std::ostringstream text;
  text << std::hexfloat << loss << ' ' << score << ' ' << samples;
  if (metric != "accuracy" || scored != samples) text << ' ' << scored << ' ' << metric;
  return text.str();
}

EpochSums EpochSums::Parse(const std::string& text) {
  const auto refuse = [&] {
    throw Error(ErrorCode::kDataLoss, StrCat("Fit cannot have remembered '", StrPrintable(text), "'"));
  };
  const std::vector<std::string> parts = StrSplit(text, ' ');
  if (parts.size() != 3 && parts.size() < 5) refuse();
  EpochSums sums;
  for (const auto& [part, sum] : {std::pair(&parts[0], &sums.loss), {&parts[1], &sums.score}}) {
    char* end = nullptr;
    *sum = std::strtod(part->c_str(), &end);
    if (part->empty() || *end != 0) refuse();
  }
  const auto samples = ParseInt(parts[2]), scored = ParseInt(parts.size() > 3 ? parts[3] : parts[2]);
  if (!samples || !scored || *samples < 0 || *scored < 0) refuse();
  sums.samples = *samples;
  sums.scored = *scored;
  sums.metric = "accuracy";
  if (parts.size() > 3) sums.metric = StrJoin(std::vector(parts.begin() + 4, parts.end()), " ");
  const bool is_share = sums.score >= 0 && sums.score <= static_cast<double>(sums.scored);
  if (sums.metric == "accuracy" && !is_share) refuse();
  return sums;
}

}  // namespace sluice::train
