// Learning curves as one HTML file: the points as JSON inside, the drawings as SVG. Internal to train/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::train {

struct CurvePoint {
  int64_t epoch = 0, step = 0;  // the epoch that ends here, or that the step is in
  double train_loss = 0;
  std::optional<double> train_score;  // of a metric, if there is one
  std::optional<double> test_loss, test_score;
  double learning_rate = 0, images_per_sec = 0;
  bool within = false;  // the epoch goes on
  bool operator==(const CurvePoint&) const = default;
};

struct ReportWords {
  std::string title;
  std::string metric = "accuracy";  // names the score; empty: there is none, and none is drawn
  std::string samples = "images";   // what they are called
};
std::string ReportHtml(const ReportWords& words, const std::vector<CurvePoint>& points);
// The points of what ReportHtml wrote; nothing for any other text.
std::optional<std::vector<CurvePoint>> PointsOf(const std::string& html);

}  // namespace sluice::train
