#include "train/memory/epoch_sums.h"

#include <cstdlib>
#include <sstream>

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::train {

std::string EpochSums::ToText() const {
  std::ostringstream text;
  text << std::hexfloat << loss << ' ' << correct << ' ' << samples;
  return text.str();
}

EpochSums EpochSums::Parse(const std::string& text) {
  EpochSums sums;
  const char* at = text.c_str();
  for (double* sum : {&sums.loss, &sums.correct}) {
    char* end = nullptr;
    *sum = std::strtod(at, &end);
    at = end;
  }
  const auto samples = ParseInt(StrTrim(at));
  if (!samples || *samples < 0 || !(sums.correct >= 0 && sums.correct <= static_cast<double>(*samples)))
    throw Error(ErrorCode::kDataLoss, StrCat("Fit cannot have remembered '", StrPrintable(text), "'"));
  sums.samples = *samples;
  return sums;
}

}  // namespace sluice::train
