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
constexpr int64_t kMostSteps = int64_t{1} << 53;  // what JSON numbers hold in any reader

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

std::string Number(double value) {
  std::ostringstream text;
  text << std::setprecision(4) << value;
  return text.str();
}

struct Line {
  std::string name, colour;
  std::function<std::optional<double>(const CurvePoint&)> value;
};

struct Range {
  double low = 0, high = 1;
  double At(double share) const { return low + (high - low) * share; }
  double ShareOf(double value) const { return (value - low) / (high - low); }
};

std::optional<double> Finite(const Line& line, const CurvePoint& point) {
  const auto value = line.value(point);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

Range RangeOf(const std::vector<Line>& lines, const std::vector<CurvePoint>& points) {
  Range range{INFINITY, -INFINITY};
  for (const Line& line : lines) {
    for (const CurvePoint& point : points) {
      const auto value = Finite(line, point);
      if (!value) continue;
      range = {std::min(range.low, *value), std::max(range.high, *value)};
    }
  }
  if (!(range.low <= range.high)) return {};
  const double margin =
      range.high > range.low ? (range.high - range.low) * 0.05 : std::max(1e-3, std::fabs(range.low) * 0.05);
  return {range.low - margin, range.high + margin};
}

class Chart {
 public:
  Chart(std::string title, std::vector<Line> lines, const std::vector<CurvePoint>& points)
      : title_(std::move(title)), lines_(std::move(lines)), points_(points), y_(RangeOf(lines_, points)) {
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
  double Y(double value) const { return kTop + (1 - y_.ShareOf(value)) * (kHeight - kTop - kBottom); }

  std::string Axes() const {
    std::string svg;
    constexpr int kTicks = 4;
    for (int i = 0; i <= kTicks; ++i) {
      const double value = y_.At(static_cast<double>(i) / kTicks), y = Y(value);
      svg += StrCat("<line class=\"grid\" x1=\"", kLeft, "\" x2=\"", kWidth - kRight, "\" y1=\"", y,
                    "\" y2=\"", y, "\"/><text x=\"", kLeft - 6, "\" y=\"", y + 4, "\" text-anchor=\"end\">",
                    Number(value), "</text>\n");
    }
    const int64_t first = PlaceOf(points_.front()), last = PlaceOf(points_.back()),
                  every = std::max<int64_t>(1, (last - first + 9) / 10);
    for (int64_t place = first; place <= last; place += every) {
      svg += StrCat("<text x=\"", X(place), "\" y=\"", kHeight - kBottom + 18, "\" text-anchor=\"middle\">",
                    place, "</text>\n");
    }
    return svg + StrCat("<text x=\"", kWidth / 2, "\" y=\"", kHeight - 4, "\" text-anchor=\"middle\">",
                        by_steps_ ? "step" : "epoch", "</text>\n");
  }

  std::string Polyline(const Line& line) const {
    std::string places, dots;
    for (const CurvePoint& point : points_) {
      const auto value = Finite(line, point);
      if (!value) continue;
      const double x = X(PlaceOf(point)), y = Y(*value);
      places += StrCat(x, ",", y, " ");
      dots += StrCat("<circle cx=\"", x, "\" cy=\"", y, "\" r=\"3\" fill=\"", line.colour, "\"><title>",
                     line.name, ", epoch ", point.epoch, ", step ", point.step, ": ", Number(*value),
                     "</title></circle>\n");
    }
    return StrCat("<polyline points=\"", places, "\" fill=\"none\" stroke=\"", line.colour,
                  "\" stroke-width=\"2\"/>\n", dots);
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
  const Range y_;
  bool by_steps_ = false;  // else by epochs
  Range x_;
};

using Column = std::pair<std::string, std::function<std::string(const CurvePoint&)>>;

std::vector<Column> Columns(const std::string& metric) {
  const auto text = [](const std::optional<double>& value) { return value ? Number(*value) : "&ndash;"; };
  std::vector<Column> columns = {
      {"epoch", [](const CurvePoint& p) { return StrCat(p.epoch); }},
      {"step", [](const CurvePoint& p) { return StrCat(p.step); }},
      {"train loss", [=](const CurvePoint& p) { return text(p.train_loss); }},
      {"train " + metric, [=](const CurvePoint& p) { return text(p.train_score); }},
      {"test loss", [=](const CurvePoint& p) { return text(p.test_loss); }},
      {"test " + metric, [=](const CurvePoint& p) { return text(p.test_score); }},
      {"learning rate", [=](const CurvePoint& p) { return text(p.learning_rate); }},
      {"images/s", [=](const CurvePoint& p) { return text(std::round(p.images_per_sec)); }}};
  if (metric.empty()) std::erase_if(columns, [](const Column& c) { return c.first.ends_with(' '); });
  return columns;
}

std::string Table(const std::string& metric, const std::vector<CurvePoint>& points) {
  const std::vector<Column> columns = Columns(metric);
  std::string table = "<table><tr>";
  for (const auto& [name, text] : columns) table += StrCat("<th>", Escaped(name), "</th>");
  for (const CurvePoint& point : points) {
    table += "</tr>\n<tr>";
    for (const auto& [name, text] : columns) table += StrCat("<td>", text(point), "</td>");
  }
  return table + "</tr>\n</table>\n";
}

std::string Charts(const std::string& metric, const std::vector<CurvePoint>& points) {
  const Line lines[] = {
      {"train", "#1f77b4", [](const CurvePoint& p) { return std::optional(p.train_loss); }},
      {"test", "#d62728", [](const CurvePoint& p) { return p.test_loss; }},
      {"train", "#1f77b4", [](const CurvePoint& p) { return p.train_score; }},
      {"test", "#d62728", [](const CurvePoint& p) { return p.test_score; }},
      {"learning rate", "#2ca02c", [](const CurvePoint& p) { return std::optional(p.learning_rate); }},
      {"images/s", "#9467bd", [](const CurvePoint& p) { return std::optional(p.images_per_sec); }}};
  std::string name = Escaped(metric);
  if (!name.empty() && name[0] >= 'a' && name[0] <= 'z') name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return Chart("Loss", {lines[0], lines[1]}, points).Svg() +
         (name.empty() ? "" : Chart(name, {lines[2], lines[3]}, points).Svg()) +
         Chart("Learning rate", {lines[4]}, points).Svg() +
         Chart("Images per second", {lines[5]}, points).Svg();
}

// Numbers that JSON does not have are left out.
Json ToJson(const CurvePoint& p) {
  Json json = {{"epoch", p.epoch}, {"step", p.step}};
  if (p.within) json["within"] = true;
  const auto put = [&](const char* name, std::optional<double> value) {
    if (value && std::isfinite(*value)) json[name] = *value;
  };
  put("train_loss", p.train_loss);
  put("train_score", p.train_score);
  put("test_loss", p.test_loss);
  put("test_score", p.test_score);
  put("learning_rate", p.learning_rate);
  put("images_per_sec", p.images_per_sec);
  return json;
}

// Nothing for what ToJson has not written.
std::optional<CurvePoint> FromJson(const Json& json) {
  const auto whole = [&](const char* name) -> std::optional<int64_t> {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number_integer()) return std::nullopt;
    const auto value = found->get<int64_t>();
    return value < 0 || value > kMostSteps ? std::nullopt : std::optional(value);
  };
  const auto optional = [&](const char* name) {
    return json.contains(name) ? std::optional(json.at(name).get<double>()) : std::nullopt;
  };
  // What was written when there was no other score.
  const auto either = [&](const char* name, const char* before) {
    return json.contains(name) ? optional(name) : optional(before);
  };
  const auto number = [&](const char* name) { return optional(name).value_or(NAN); };
  const auto epoch = whole("epoch"), step = whole("step");
  if (!epoch || !step) return std::nullopt;
  return CurvePoint{*epoch,
                    *step,
                    number("train_loss"),
                    either("train_score", "train_accuracy"),
                    optional("test_loss"),
                    either("test_score", "test_accuracy"),
                    number("learning_rate"),
                    number("images_per_sec"),
                    json.value("within", false)};
}

// One epoch has one end.
bool Follows(const CurvePoint& point, const CurvePoint& before) {
  return point.step > before.step && point.epoch >= before.epoch + (before.within ? 0 : 1);
}

constexpr const char* kStyle =
    "body{font:14px sans-serif;max-width:700px;margin:2em auto;padding:0 1em}svg{width:100%;font-size:11px}"
    ".grid{stroke:#ddd}table{border-collapse:collapse}td,th{padding:2px "
    "8px;text-align:right;border-bottom:1px solid #ddd}";

}  // namespace

std::string ReportHtml(const std::string& title, const std::string& metric,
                       const std::vector<CurvePoint>& points) {
  Json data = Json::array();
  for (const CurvePoint& point : points) data.push_back(ToJson(point));
  return StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", Escaped(title),
      "</title><style>", kStyle, "</style></head><body>\n<h1>", Escaped(title), "</h1>\n",
      points.empty() ? "<p>No epoch has ended yet.</p>\n" : Charts(metric, points) + Table(metric, points),
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
