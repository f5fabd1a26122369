#include "train/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/strings.h"

namespace sluice::train {
namespace {

constexpr Duration kRedraw = 100ms;

std::string Fixed(double value, int digits) {
  if (std::isnan(value)) return "nan";  // never "-nan"
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string Thousands(double value) {
  std::string digits = std::to_string(static_cast<int64_t>(std::llround(std::max(value, 0.0))));
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string ScoreText(const ProgressState& s, const std::string& name) {
  return s.metric.empty() ? "" : StrCat(" ", name, " ", Fixed(s.score, 4));
}

}  // namespace

std::string ClockText(Duration duration) {
  const auto seconds =
      std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::seconds>(duration).count());
  char text[32];
  if (seconds >= 3600) {
    std::snprintf(text, sizeof text, "%lld:%02d:%02d", static_cast<long long>(seconds / 3600),
                  static_cast<int>(seconds / 60 % 60), static_cast<int>(seconds % 60));
  } else {
    std::snprintf(text, sizeof text, "%d:%02d", static_cast<int>(seconds / 60),
                  static_cast<int>(seconds % 60));
  }
  return text;
}

std::string ProgressBar(const ProgressState& s, int columns) {
  const std::string head = StrCat("epoch ", s.epoch + 1, "/", s.num_epochs, " ");
  const std::string tail =
      StrCat(" ", s.batch, "/", s.num_batches, " loss ", Fixed(s.loss, 4),
             ScoreText(s, s.metric == "accuracy" ? "acc" : s.metric), " ", Thousands(s.samples_per_sec), " ",
             s.samples == "images" ? "img" : s.samples, "/s ", ClockText(s.left), " left");
  const int room = columns - static_cast<int>(head.size() + tail.size()) - 2;
  std::string bar;
  if (room >= 4) {
    const double share =
        s.num_batches > 0 ? static_cast<double>(s.batch) / static_cast<double>(s.num_batches) : 1.0;
    const int full = std::clamp(static_cast<int>(share * room), 0, room);
    const int open = std::max(room - full - 1, 0);
    bar = StrCat("[", std::string(static_cast<size_t>(full), '#'), full < room ? ">" : "",
                 std::string(static_cast<size_t>(open), ' '), "]");
  }
  return (head + bar + tail).substr(0, std::max(columns, 0));
}

std::string ProgressLine(const ProgressState& s) {
  return StrCat("epoch ", s.epoch + 1, " batch ", s.batch, "/", s.num_batches, " loss ", Fixed(s.loss, 4),
                ScoreText(s, s.metric), " ", Fixed(s.samples_per_sec, 0), " ", s.samples, "/s");
}

void Progress::Update(Time now, const ProgressState& state) {
  const bool last = state.batch == state.num_batches;
  if (quiet_) return;
  if (terminal_) {
    if (drawn_ && !last && now - last_drawn_ < kRedraw) return;
    out_ << '\r' << ProgressBar(state, columns_ - 1) << "\x1b[K" << std::flush;
    drawn_ = true;
    last_drawn_ = now;
  } else if (every_ > 0 && state.batch % every_ == 0) {
    out_ << ProgressLine(state) << std::endl;
  }
}

void Progress::Say(const std::string& line) {
  if (quiet_) return;
  Clear();
  out_ << line << std::endl;
}

void Progress::Clear() {
  if (drawn_) out_ << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

}  // namespace sluice::train
