// Digits drawn from strokes. Each glyph is a few polylines in a unit box (y points down); a sample bends and
// distorts them, draws them with a round pen, and adds noise and a stray line. The range of rotation, shear,
// scale and place makes the set hard for a linear model: no pixel is typical of one digit.
//
// SyntheticDigits makes all samples on the caller's thread. A sample is a function of (seed, subset, index).
#include <algorithm>
#include <array>
#include <cmath>

#include "base/rng.h"
#include "data/synthetic_count.h"
#include "sluice/synthetic.h"

namespace sluice {
namespace {

constexpr int kSide = 28;
constexpr int kPixels = kSide * kSide;
constexpr int64_t kClasses = 10;
constexpr double kPi = 3.14159265358979323846;

struct Point {
  double x = 0;
  double y = 0;
};
using Stroke = std::vector<Point>;
using Glyph = std::vector<Stroke>;

// An arc as a polyline of `pieces` pieces. Angles are in full circles, clockwise from the right (y
// points down).
Stroke Arc(Point center, double rx, double ry, double from, double to, int pieces = 10) {
  Stroke stroke;
  for (int i = 0; i <= pieces; ++i) {
    const double angle = 2 * kPi * (from + (to - from) * i / pieces);
    stroke.push_back({center.x + rx * std::cos(angle), center.y + ry * std::sin(angle)});
  }
  return stroke;
}

Stroke Joined(Stroke first, const Stroke& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// The strokes of a digit. Some digits are commonly written in two ways, which `variant` tells apart.
Glyph GlyphOf(int digit, bool variant) {
  switch (digit) {
    case 0:
      return {Arc({.5, .5}, variant ? .28 : .36, .5, 0, 1, 16)};
    case 1:
      if (variant) return {{{.5, 0}, {.5, 1}}};
      return {{{.28, .25}, {.52, 0}, {.52, 1}}, {{.3, 1}, {.74, 1}}};
    case 2:
      return {Joined(Arc({.5, .28}, .34, .28, -.48, .1), {{.14, 1}, {.88, 1}})};
    case 3:
      if (variant) return {Joined({{.16, 0}, {.8, 0}, {.46, .4}}, Arc({.48, .69}, .34, .3, -.25, .42))};
      return {Arc({.46, .26}, .32, .26, -.42, .25), Arc({.46, .74}, .36, .26, -.25, .42)};
    case 4:
      if (variant) return {{{.2, 0}, {.16, .55}, {.84, .55}}, {{.74, 0}, {.74, 1}}};
      return {{{.68, 1}, {.68, 0}, {.1, .66}, {.9, .66}}};
    case 5:
      return {Joined({{.84, 0}, {.24, 0}, {.2, .44}}, Arc({.46, .69}, .36, .31, -.33, .4))};
    case 6:
      return {Joined({{variant ? .7 : .56, 0}, {.3, .3}, {.17, .6}}, Arc({.5, .7}, .33, .3, .5, 1.5, 14))};
    case 7:
      if (variant) return {{{.12, 0}, {.86, 0}, {.4, 1}}, {{.3, .5}, {.78, .5}}};
      return {{{.12, 0}, {.86, 0}, {.4, 1}}};
    case 8:
      return {Arc({.5, .25}, .27, .25, .25, 1.25, 12), Arc({.5, .75}, .34, .25, -.25, .75, 12)};
    default:
      return {Joined(Arc({.5, .3}, .33, .3, 0, 1, 14), {{.82, .5}, {variant ? .8 : .6, 1}})};
  }
}

// Maps points of the unit box to the image, by a random rotation, shear, scale and place, and by a bend that
// moves parts of a glyph against each other.
class Distortion {
 public:
  explicit Distortion(Rng* rng) {
    const double angle = rng->Uniform(-.35, .35);
    const double shear = rng->Uniform(-.35, .35);
    const double width = rng->Uniform(9, 17);
    const double height = rng->Uniform(13, 20);
    const double c = std::cos(angle);
    const double s = std::sin(angle);
    xx_ = c * width;
    xy_ = (c * shear - s) * height;
    yx_ = s * width;
    yy_ = (s * shear + c) * height;
    center_ = {kSide / 2.0 + rng->Uniform(-3, 3), kSide / 2.0 + rng->Uniform(-3, 3)};
    bend_x_ = rng->Uniform(-.07, .07);
    bend_y_ = rng->Uniform(-.07, .07);
    phase_ = rng->Uniform(0, 2 * kPi);
  }
  Point operator()(Point p) const {
    const double x = p.x - .5 + bend_x_ * std::sin(5 * p.y + phase_);
    const double y = p.y - .5 + bend_y_ * std::sin(5 * p.x + phase_);
    return {center_.x + xx_ * x + xy_ * y, center_.y + yx_ * x + yy_ * y};
  }

 private:
  double xx_, xy_, yx_, yy_;
  Point center_;
  double bend_x_, bend_y_, phase_;
};

// Distances from the centre of every pixel to the nearest stroke. Distances up to `reach` are exact; a larger
// distance may be reported as any number from `reach` on.
class DistanceField {
 public:
  explicit DistanceField(double reach) : reach_(reach) { squared_.fill(static_cast<float>(reach * reach)); }

  void Add(Point from, Point to) {
    const float dx = static_cast<float>(to.x - from.x);
    const float dy = static_cast<float>(to.y - from.y);
    const float length = dx * dx + dy * dy;
    const float scale = length > 0 ? 1 / length : 0;
    const auto [left, right] = Range(from.x, to.x);
    const auto [top, bottom] = Range(from.y, to.y);
    for (int y = top; y < bottom; ++y) {
      for (int x = left; x < right; ++x) {
        const float px = static_cast<float>(x + .5 - from.x);
        const float py = static_cast<float>(y + .5 - from.y);
        const float along = std::clamp((px * dx + py * dy) * scale, 0.0f, 1.0f);
        const float ex = px - along * dx;
        const float ey = py - along * dy;
        float& nearest = squared_[static_cast<size_t>(y) * kSide + static_cast<size_t>(x)];
        nearest = std::min(nearest, ex * ex + ey * ey);
      }
    }
  }
  float Distance(size_t pixel) const { return std::sqrt(squared_[pixel]); }

 private:
  std::pair<int, int> Range(double a, double b) const {
    const auto clip = [](double value) { return static_cast<int>(std::clamp(value, 0.0, double{kSide})); };
    return {clip(std::floor(std::min(a, b) - reach_)), clip(std::ceil(std::max(a, b) + reach_))};
  }
  double reach_;
  std::array<float, kPixels> squared_;
};

void Draw(int digit, Rng* rng, std::span<uint8_t> image) {
  const Distortion distortion(rng);
  const double radius = rng->Uniform(.5, 1.5);
  const double ink = rng->Uniform(.65, 1);
  const double noise = rng->Uniform(.05, .3);
  DistanceField field(radius + 1);
  for (const Stroke& stroke : GlyphOf(digit, rng->Chance(.5))) {
    Point last = distortion(stroke.front());
    for (size_t i = 1; i < stroke.size(); ++i) {
      const Point next = distortion(stroke[i]);
      field.Add(last, next);
      last = next;
    }
  }
  if (rng->Chance(.5)) {  // a stray line
    const Point from{rng->Uniform(0, kSide), rng->Uniform(0, kSide)};
    field.Add(from, {from.x + rng->Uniform(-5, 5), from.y + rng->Uniform(-5, 5)});
  }
  uint64_t bits = 0;
  for (size_t pixel = 0; pixel < image.size(); ++pixel) {
    // `covered` is the share of the pixel that the pen covers. The noise has a triangular distribution;
    // one draw of 64 bits serves four pixels.
    const double covered = std::clamp(radius + .5 - field.Distance(pixel), 0.0, 1.0);
    bits = pixel % 4 == 0 ? rng->Next() : bits >> 16;
    const double triangular =
        (static_cast<double>(bits & 0xff) + static_cast<double>(bits >> 8 & 0xff) - 255) / 255;
    const double level = std::clamp(255 * (ink * covered + noise * triangular), 0.0, 255.0);
    image[pixel] = static_cast<uint8_t>(level + .5);  // NOLINT(bugprone-incorrect-roundings): never negative
  }
}

}  // namespace

std::shared_ptr<const ImageDataset> SyntheticDigits(Subset subset, uint64_t seed, int64_t count) {
  const size_t samples = RequiredCount("SyntheticDigits", count,
                                       subset == Subset::kTrain ? kDefaultTrainDigits : kDefaultTestDigits);
  auto pixels = RoomForSamples<uint8_t>("SyntheticDigits", samples, kPixels);
  auto labels = RoomForSamples<uint8_t>("SyntheticDigits", samples, 1);
  for (size_t index = 0; index < labels.size(); ++index) {
    Rng rng(DeriveSeed(seed, static_cast<uint64_t>(subset), index));
    labels[index] = static_cast<uint8_t>(rng.Below(kClasses));
    Draw(labels[index], &rng, std::span(pixels).subspan(index * kPixels, kPixels));
  }
  return std::make_shared<ImageDataset>(Shape{1, kSide, kSide}, std::move(pixels), std::move(labels),
                                        kClasses);
}

}  // namespace sluice
