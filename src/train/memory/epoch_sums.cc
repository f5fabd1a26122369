#include "train/memory/epoch_sums.h"

#include <cstdlib>
#include <sstream>

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::train {

std::string EpochSums::ToText() const {
  std::ostringstream text;
  text << std::hexfloat << loss << ' ' << score << ' ' << samples;
  return text.str();
}

EpochSums EpochSums::Parse(const std::string& text) {
  EpochSums sums;
  const char* at = text.c_str();
  bool numbers = true;
  for (double* sum : {&sums.loss, &sums.score}) {
    char* end = nullptr;
    *sum = std::strtod(at, &end);
    numbers = numbers && end != at;
    at = end;
  }
  const auto samples = ParseInt(StrTrim(at));
  if (!numbers || !samples || *samples < 0)
    throw Error(ErrorCode::kDataLoss, StrCat("Fit cannot have remembered '", StrPrintable(text), "'"));
  sums.samples = *samples;
  return sums;
}

}  // namespace sluice::train
