// Learning curves as one HTML file, which has the points as JSON and the charts as SVG. Internal to train/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::train {

struct CurvePoint {
  int64_t epoch = 0, step = 0;  // the epoch, from 1, that ends here or contains the step; steps done
  double train_loss = 0;
  std::optional<double> train_score;  // the metric; null if there is none
  std::optional<double> test_loss, test_score;
  double learning_rate = 0, samples_per_sec = 0;
  bool within = false;  // true: the point lies within the epoch, not at its end
  bool operator==(const CurvePoint&) const = default;
};

struct ReportLabels {
  std::string title;
  std::string metric = "accuracy";  // the name of the score; empty: there is none, and none is drawn
  std::string samples = "images";   // what the samples are called
};
// Returns the report as HTML. `points` are in ascending order of steps.
std::string ReportHtml(const ReportLabels& words, const std::vector<CurvePoint>& points);
// Returns the points of a report that ReportHtml made; nullopt for any other text.
std::optional<std::vector<CurvePoint>> PointsOf(const std::string& html);

}  // namespace sluice::train
