#include <cmath>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "train/report/report.h"

namespace {

using sluice::train::CurvePoint;
using sluice::train::PointsOf;
using sluice::train::ReportHtml;

void CheckReport(const std::string& html) {
  const auto points = PointsOf(html);
  if (!points) return;
  const std::string drawn = ReportHtml({"a <b>", "m<", "s>"}, *points);
  // The size is bounded: the axis marks at most eleven epochs, and each point adds dots and a row.
  SLUICE_CHECK(drawn.size() < 20'000 + 4'000 * points->size()) << drawn.size();
  const auto again = PointsOf(drawn);
  SLUICE_CHECK(again && again->size() == points->size());
  SLUICE_CHECK(ReportHtml({"a <b>", "m<", "s>"}, *again) == drawn);
}

}  // namespace

// Reads the input as a whole report, and as the points within a report.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  CheckReport(text);
  std::string report = ReportHtml({"t", ""}, {});
  CheckReport(report.replace(report.find("[]"), 2, text));
  return 0;
}
