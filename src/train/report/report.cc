// Makes the HTML report of a run, and reads the points back from it.
//
// The file holds the points as JSON in a script element, and charts and a table drawn from them. Text
// from the program is escaped everywhere. PointsOf accepts only what ReportHtml can have written, in
// ascending order of steps. The functions are pure; WriteReport (report_writer.cc) calls them on rank
// 0's training thread.
#include "train/report/report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/strings.h"

namespace sluice::train {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kBegin = "<script type=\"application/json\" id=\"points\">", kEnd = "</script>";
constexpr double kWidth = 640, kHeight = 260, kLeft = 64, kRight = 16, kTop = 16, kBottom = 40;
constexpr int kMostPlaces = 10;                   // intervals between the numbers below a chart
constexpr int64_t kMostSteps = int64_t{1} << 53;  // whole numbers up to this are exact in every JSON reader

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const std::string_view entity = c == '&'   ? "&amp;"
                                    : c == '<' ? "&lt;"
                                    : c == '>' ? "&gt;"
                                    : c == '"' ? "&quot;"
                                               : "";
    entity.empty() ? out += c : out += entity;
  }
  return out;
}

// Returns how many digits to print, at least `least`. Numbers below 10^7 get all digits before the
// point: "35490", not "3.549e+04".
int DigitsOf(double value, int least) {
  const double size = std::fabs(value);
  return size < 1e7 ? std::max(least, static_cast<int>(std::to_string(static_cast<int64_t>(size)).size()))
                    : least;
}

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "infinite" : "-infinite";
  std::ostringstream text;
  text << std::setprecision(DigitsOf(value, 4)) << value;
  return text.str();
}

std::string Capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

struct Line {
  std::string name, colour;
  std::function<std::optional<double>(const CurvePoint&)> value;
};

struct Range {
  double low = 0, high = 1;
  double ShareOf(double value) const { return (value - low) / (high - low); }
};

// Whether the value is finite and small enough that differences of two such values do not overflow.
bool IsDrawn(double value) {
  return std::fabs(value) <= 1e300;
}

// Returns the smallest round number (1, 2 or 5 times a power of ten) that cuts `span` into at most
// `most` steps.
double RoundStep(double span, int most) {
  const double least = span / most, power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// A vertical axis. Both ends of the range are ticks.
struct Axis {
  Range range;
  double step = 0.25;
  int ticks() const { return static_cast<int>(std::lround((range.high - range.low) / step)); }
  double At(int tick) const {
    const double value = range.low + tick * step;
    return std::fabs(value) < step / 2 ? 0 : value;  // exactly 0 in place of, say, 1e-17
  }
  // Returns the tick's label, with enough digits to distinguish all ticks.
  std::string TextAt(int tick) const {
    const double most = std::max(std::fabs(range.low), std::fabs(range.high));
    std::ostringstream text;
    text << std::setprecision(
                std::clamp(static_cast<int>(std::log10(most / step)) + 2, DigitsOf(most, 4), 15))
         << At(tick);
    return text.str();
  }
};

// Returns an axis that covers all values. If none is negative it begins at 0, so that a small change
// looks small.
Axis AxisOf(const std::vector<Line>& lines, const std::vector<CurvePoint>& points) {
  constexpr int kMostSteps = 5;
  Range values{HUGE_VAL, -HUGE_VAL};
  for (const Line& line : lines) {
    for (const CurvePoint& point : points) {
      const auto value = line.value(point);
      if (value && IsDrawn(*value)) values = {std::min(values.low, *value), std::max(values.high, *value)};
    }
  }
  if (!(values.low <= values.high)) return {};  // no value is drawn
  if (values.low >= 0) values.low = 0;
  const double span = values.high > values.low ? values.high - values.low : std::fabs(values.low);
  if (!(span > 1e-300)) return {};
  const double step = RoundStep(span, kMostSteps);
  // 1e-9 makes a value that misses a tick only by rounding count as that tick.
  const double low = std::floor(values.low / step + 1e-9) * step,
               high = std::ceil(values.high / step - 1e-9) * step;
  return {{low, high > low ? high : low + step}, step};
}

class Chart {
 public:
  Chart(std::string title, std::vector<Line> lines, const std::vector<CurvePoint>& points)
      : title_(std::move(title)), lines_(std::move(lines)), points_(points), y_(AxisOf(lines_, points)) {
    by_steps_ = std::ranges::any_of(points, &CurvePoint::within);
    x_ = {static_cast<double>(PlaceOf(points.front())), static_cast<double>(PlaceOf(points.back()))};
    if (x_.low == x_.high) x_ = {x_.low - 1, x_.high + 1};
  }

  std::string Svg() const {
    std::string svg = StrCat("<h2>", title_, "</h2>\n<svg viewBox=\"0 0 ", kWidth, " ", kHeight,
                             "\" role=\"img\" aria-label=\"", title_, "\">\n", Axes());
    for (const Line& line : lines_) svg += Polyline(line);
    return svg + "</svg>\n" + Legend();
  }

 private:
  int64_t PlaceOf(const CurvePoint& point) const { return by_steps_ ? point.step : point.epoch; }
  double X(int64_t place) const {
    return kLeft + x_.ShareOf(static_cast<double>(place)) * (kWidth - kLeft - kRight);
  }
  double Y(double value) const { return kTop + (1 - y_.range.ShareOf(value)) * (kHeight - kTop - kBottom); }

  std::string Axes() const {
    std::string svg;
    for (int i = 0; i <= y_.ticks(); ++i) {
      const double y = Y(y_.At(i));
      svg += StrCat("<line class=\"grid\" x1=\"", kLeft, "\" x2=\"", kWidth - kRight, "\" y1=\"", y,
                    "\" y2=\"", y, "\"/><text x=\"", kLeft - 6, "\" y=\"", y + 4, "\" text-anchor=\"end\">",
                    y_.TextAt(i), "</text>\n");
    }
    const int64_t first = PlaceOf(points_.front()), last = PlaceOf(points_.back());
    const auto every = static_cast<int64_t>(
        std::max(1.0, RoundStep(static_cast<double>(std::max<int64_t>(1, last - first)), kMostPlaces)));
    // A single place is its own tick; several places have ticks at round numbers.
    for (int64_t place = first == last ? first : (first + every - 1) / every * every; place <= last;
         place += every) {
      svg += StrCat("<text x=\"", X(place), "\" y=\"", kHeight - kBottom + 18, "\" text-anchor=\"middle\">",
                    place, "</text>\n");
    }
    return svg + StrCat("<text x=\"", kWidth / 2, "\" y=\"", kHeight - 4, "\" text-anchor=\"middle\">",
                        by_steps_ ? "step" : "epoch", "</text>\n");
  }

  // Draws a line, interrupted where values cannot be drawn (NaN, infinity). The first of several equal
  // such values is written as text in its place.
  std::string Polyline(const Line& line) const {
    std::string svg, places, dots, last;
    const auto end_piece = [&] {
      if (!places.empty())
        svg += StrCat("<polyline points=\"", places, "\" fill=\"none\" stroke=\"", line.colour,
                      "\" stroke-width=\"2\"/>\n");
      places.clear();
    };
    for (const CurvePoint& point : points_) {
      const auto value = line.value(point);
      if (!value) continue;
      const double x = X(PlaceOf(point));
      const std::string title = StrCat("<title>", line.name, ", epoch ", point.epoch, ", step ", point.step,
                                       ": ", Number(*value), "</title>");
      if (IsDrawn(*value)) {
        const double y = Y(*value);
        places += StrCat(x, ",", y, " ");
        dots += StrCat("<circle cx=\"", x, "\" cy=\"", y, "\" r=\"3\" fill=\"", line.colour, "\">", title,
                       "</circle>\n");
        last.clear();
        continue;
      }
      end_piece();
      if (last != Number(*value))
        dots += StrCat("<text x=\"", x, "\" y=\"", kTop + 12, "\" text-anchor=\"middle\" fill=\"",
                       line.colour, "\">", Number(*value), title, "</text>\n");
      last = Number(*value);
    }
    end_piece();
    return svg + dots;
  }

  std::string Legend() const {
    std::string text = "<p>";
    for (const Line& line : lines_)
      text += StrCat("<span style=\"color:", line.colour, "\">&#9632;</span> ", line.name, " &nbsp; ");
    return text + "</p>\n";
  }

  const std::string title_;
  const std::vector<Line> lines_;
  const std::vector<CurvePoint>& points_;
  const Axis y_;
  bool by_steps_ = false;  // false: x_ counts epochs
  Range x_;
};

using Column = std::pair<std::string, std::function<std::string(const CurvePoint&)>>;

std::vector<Column> Columns(const ReportLabels& words) {
  const auto text = [](const std::optional<double>& value) { return value ? Number(*value) : "&ndash;"; };
  std::vector<Column> columns = {
      {"epoch", [](const CurvePoint& p) { return StrCat(p.epoch); }},
      {"step", [](const CurvePoint& p) { return StrCat(p.step); }},
      {"train loss", [=](const CurvePoint& p) { return text(p.train_loss); }},
      {"train " + words.metric, [=](const CurvePoint& p) { return text(p.train_score); }},
      {"test loss", [=](const CurvePoint& p) { return text(p.test_loss); }},
      {"test " + words.metric, [=](const CurvePoint& p) { return text(p.test_score); }},
      {"learning rate", [=](const CurvePoint& p) { return text(p.learning_rate); }},
      {words.samples + "/s", [=](const CurvePoint& p) { return text(std::round(p.samples_per_sec)); }}};
  if (words.metric.empty()) std::erase_if(columns, [](const Column& c) { return c.first.ends_with(' '); });
  return columns;
}

std::string Table(const ReportLabels& words, const std::vector<CurvePoint>& points) {
  const std::vector<Column> columns = Columns(words);
  std::string table = "<table><tr>";
  for (const auto& [name, text] : columns) table += StrCat("<th>", Escaped(name), "</th>");
  for (const CurvePoint& point : points) {
    table += "</tr>\n<tr>";
    for (const auto& [name, text] : columns) table += StrCat("<td>", text(point), "</td>");
  }
  return table + "</tr>\n</table>\n";
}

std::string Charts(const ReportLabels& words, const std::vector<CurvePoint>& points) {
  const std::string samples = Escaped(words.samples);
  const Line lines[] = {
      {"train", "#1f77b4", [](const CurvePoint& p) { return std::optional(p.train_loss); }},
      {"test", "#d62728", [](const CurvePoint& p) { return p.test_loss; }},
      {"train", "#1f77b4", [](const CurvePoint& p) { return p.train_score; }},
      {"test", "#d62728", [](const CurvePoint& p) { return p.test_score; }},
      {"learning rate", "#2ca02c", [](const CurvePoint& p) { return std::optional(p.learning_rate); }},
      {samples + "/s", "#9467bd", [](const CurvePoint& p) { return std::optional(p.samples_per_sec); }}};
  const std::string name = Capital(Escaped(words.metric));
  return Chart("Loss", {lines[0], lines[1]}, points).Svg() +
         (name.empty() ? "" : Chart(name, {lines[2], lines[3]}, points).Svg()) +
         Chart("Learning rate", {lines[4]}, points).Svg() +
         Chart(Capital(samples) + " per second", {lines[5]}, points).Svg();
}

// JSON has no NaN and no infinity, so they are written as texts.
Json ToJson(double value) {
  return std::isfinite(value) ? Json(value) : Json(Number(value));
}
std::optional<double> NumberFrom(const Json& json) {
  if (json.is_number()) return json.get<double>();
  for (const double value : {double{NAN}, double{INFINITY}, -double{INFINITY}}) {
    if (json.is_string() && json.get_ref<const std::string&>() == Number(value)) return value;
  }
  return std::nullopt;
}

Json ToJson(const CurvePoint& p) {
  Json json = {{"epoch", p.epoch}, {"step", p.step}};
  if (p.within) json["within"] = true;
  const auto put = [&](const char* name, std::optional<double> value) {
    if (value) json[name] = ToJson(*value);
  };
  put("train_loss", p.train_loss);
  put("train_score", p.train_score);
  put("test_loss", p.test_loss);
  put("test_score", p.test_score);
  put("learning_rate", p.learning_rate);
  put("images_per_sec", p.samples_per_sec);
  return json;
}

// Returns nullopt for JSON that ToJson cannot have written.
std::optional<CurvePoint> FromJson(const Json& json) {
  const auto whole = [&](const char* name) -> std::optional<int64_t> {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number_integer()) return std::nullopt;
    const auto value = found->get<int64_t>();
    return value < 0 || value > kMostSteps ? std::nullopt : std::optional(value);
  };
  bool valid = true;
  const auto optional = [&](const char* name) {
    const auto found = json.find(name);
    const auto value = found == json.end() ? std::nullopt : NumberFrom(*found);
    valid = valid && (found == json.end() || value);
    return value;
  };
  // `before` is the name in older files, whose only score was the accuracy.
  const auto either = [&](const char* name, const char* before) {
    return json.contains(name) ? optional(name) : optional(before);
  };
  const auto number = [&](const char* name) { return optional(name).value_or(NAN); };
  const auto epoch = whole("epoch"), step = whole("step");
  if (!epoch || !step) return std::nullopt;
  const CurvePoint point{*epoch,
                         *step,
                         number("train_loss"),
                         either("train_score", "train_accuracy"),
                         optional("test_loss"),
                         either("test_score", "test_accuracy"),
                         number("learning_rate"),
                         number("images_per_sec"),
                         json.value("within", false)};
  return valid ? std::optional(point) : std::nullopt;
}

// Whether `point` can come after `before`: steps ascend, and an epoch has several points only within it.
bool Follows(const CurvePoint& point, const CurvePoint& before) {
  return point.step > before.step && point.epoch >= before.epoch + (before.within ? 0 : 1);
}

constexpr const char* kStyle =
    "body{font:14px sans-serif;max-width:700px;margin:2em auto;padding:0 1em}svg{width:100%;font-size:11px}"
    ".grid{stroke:#ddd}table{border-collapse:collapse}td,th{padding:2px "
    "8px;text-align:right;border-bottom:1px solid #ddd}";

}  // namespace

std::string ReportHtml(const ReportLabels& words, const std::vector<CurvePoint>& points) {
  Json data = Json::array();
  for (const CurvePoint& point : points) data.push_back(ToJson(point));
  return StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", Escaped(words.title),
      "</title><style>", kStyle, "</style></head><body>\n<h1>", Escaped(words.title), "</h1>\n",
      points.empty() ? "<p>No epoch has ended yet.</p>\n" : Charts(words, points) + Table(words, points),
      kBegin, data.dump(), kEnd, "\n</body></html>\n");
}

std::optional<std::vector<CurvePoint>> PointsOf(const std::string& html) {
  const size_t begin = html.find(kBegin);
  const size_t end = begin == std::string::npos ? begin : html.find(kEnd, begin);
  if (end == std::string::npos) return std::nullopt;
  const size_t first = begin + kBegin.size();
  try {
    std::vector<CurvePoint> points;
    const Json all = Json::parse(html.substr(first, end - first));
    if (!all.is_array()) return std::nullopt;
    for (const Json& json : all) {
      const auto point = json.is_object() ? FromJson(json) : std::nullopt;
      if (!point || (!points.empty() && !Follows(*point, points.back()))) return std::nullopt;
      points.push_back(*point);
    }
    return points;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace sluice::train
