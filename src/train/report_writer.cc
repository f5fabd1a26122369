#include <algorithm>

#include "base/file.h"
#include "base/strings.h"
#include "sluice/callback.h"
#include "train/report/report.h"

namespace sluice {
namespace {

class ReportWriter final : public Callback {
 public:
  ReportWriter(std::string file, std::string title) : file_(std::move(file)), title_(std::move(title)) {}

  void OnStep(const FitStatus& status) override {
    if (status.test) Add(status, status.next.epoch + 1, true);
  }
  void OnEpoch(const FitStatus& status) override { Add(status, status.next.epoch, false); }
  void OnEnd(const FitStatus& status) override {
    if (status.next.step != 0) Add(status, status.next.epoch + 1, false);
  }

  std::string name() const override { return "WriteReport"; }
  // Says that the file has points, also for a run that is resumed within its first epoch.
  std::string Memory() const override { return points_.empty() ? "" : "begun"; }
  void Recall(const std::string&) override { goes_on_ = true; }

 private:
  // Whether a metric judges the run; otherwise the loss is the score.
  static bool Scored(const FitStatus& status) { return !status.judge.is_loss; }
  void Add(const FitStatus& status, int64_t epoch, bool within) {
    if (points_.empty() && (goes_on_ || epoch > 1)) ReadPoints();
    std::erase_if(points_, [&](const train::CurvePoint& point) {
      return point.step >= status.step || (!point.within && point.epoch >= epoch);
    });
    train::CurvePoint point{.epoch = epoch,
                            .step = status.step,
                            .train_loss = status.loss,
                            .train_score = Scored(status) ? std::optional(status.score) : std::nullopt,
                            .learning_rate = status.learning_rate,
                            .samples_per_sec = status.samples_per_sec,
                            .within = within};
    if (status.test) {
      point.test_loss = status.test->loss;
      if (Scored(status)) point.test_score = status.test->score;
    }
    points_.push_back(point);
    const std::string html =
        train::ReportHtml({title_, Scored(status) ? status.judge.metric : "", status.samples}, points_);
    const Bytes bytes = AsBytes(html);
    WriteFileAtomically(file_, std::span(&bytes, 1)).OrThrow();
  }

  // Reads the points that a resumed run has written to the file. A file that is missing or is no report
  // has none.
  void ReadPoints() {
    constexpr uint64_t kMostBytes = 64 << 20;
    const auto text = ReadFile(file_, kMostBytes);
    if (!text) return;
    points_ =
        train::PointsOf(std::string(AsText(text.value().bytes()))).value_or(std::vector<train::CurvePoint>());
  }

  const std::string file_, title_;
  bool goes_on_ = false;
  std::vector<train::CurvePoint> points_;
};

}  // namespace

CallbackPtr WriteReport(std::string file, std::string title) {
  ValidateFileName(file, "WriteReport").OrThrow();
  return std::make_shared<ReportWriter>(std::move(file), std::move(title));
}

}  // namespace sluice
