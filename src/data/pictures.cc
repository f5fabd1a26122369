// Figures in CIFAR-10's shape. Each is a signed distance in a unit box (negative inside). A sample
// rotates, scales and places one, paints it in a random colour on a background of two colours with
// waves, a stray line and a stray dot, and adds noise. The colours of figure and background are random,
// so that the mean of a pixel says nothing about the class.
//
// SyntheticPictures makes all samples on the caller's thread. A sample is a function of (seed, subset,
// index).
#include <algorithm>
#include <array>
#include <cmath>

#include "base/rng.h"
#include "data/synthetic_count.h"
#include "sluice/synthetic.h"

namespace sluice {
namespace {

constexpr size_t kSide = 32;
constexpr size_t kArea = kSide * kSide;
constexpr int64_t kClasses = 10;
constexpr double kPi = 3.14159265358979323846;

using Color = std::array<double, 3>;

double Box(double u, double v, double half_width, double half_height) {
  return std::max(std::abs(u) - half_width, std::abs(v) - half_height);
}

// The signed distance of (u, v) from the figure's outline, in units of the figure's radius.
double Distance(int figure, double u, double v) {
  const double r = std::hypot(u, v);
  switch (figure) {
    case 0:  // disc
      return r - .75;
    case 1:  // ring
      return std::abs(r - .65) - .17;
    case 2:  // square
      return Box(u, v, .66, .66);
    case 3:  // frame
      return std::abs(Box(u, v, .6, .6)) - .15;
    case 4:  // triangle
      return std::max(std::abs(u) * std::sqrt(.75) + v / 2, -v) - .42;
    case 5:  // cross
      return std::min(Box(u, v, .9, .24), Box(u, v, .24, .9));
    case 6:  // star
      return r - (.58 + .3 * std::cos(5 * std::atan2(v, u)));
    case 7:  // crescent
      return std::max(r - .85, .68 - std::hypot(u - .42, v));
    case 8:  // bars
      return std::min({Box(u - .6, v, .15, .8), Box(u, v, .15, .8), Box(u + .6, v, .15, .8)});
    default:  // dots
      return std::hypot(std::abs(u) - .48, std::abs(v) - .48) - .3;
  }
}

double Brightness(const Color& color) {
  return .299 * color[0] + .587 * color[1] + .114 * color[2];
}

struct Paint {
  explicit Paint(Rng* rng) {
    const auto any = [rng] { return Color{rng->Uniform(), rng->Uniform(), rng->Uniform()}; };
    figure = any();
    // The background differs from the figure in brightness, so that grey-scale copies are as readable.
    const auto near = [&](const Color& color) {
      return std::abs(Brightness(color) - Brightness(figure)) < .25;
    };
    do background = any();
    while (near(background));
    do other = any();
    while (near(other));
    stray = any();
  }
  Color figure, background, other, stray;
};

void Draw(int figure, Rng* rng, std::span<uint8_t> image) {
  const Paint paint(rng);
  const double turn = rng->Uniform(0, 2 * kPi), radius = rng->Uniform(7, 13);
  const double x0 = kSide / 2.0 + rng->Uniform(-5, 5), y0 = kSide / 2.0 + rng->Uniform(-5, 5);
  const double c = std::cos(turn) / radius, s = std::sin(turn) / radius;
  const double slope = rng->Uniform(0, 2 * kPi), waves = rng->Uniform(0, .5),
               phase = rng->Uniform(0, 2 * kPi);
  const double wave_x = rng->Uniform(-1, 1), wave_y = rng->Uniform(-1, 1);
  const double line = rng->Uniform(0, kPi), line_at = rng->Uniform(-16, 16);
  const double dot_x = rng->Uniform(0, kSide), dot_y = rng->Uniform(0, kSide), dot = rng->Uniform(1, 3);
  const double noise = rng->Uniform(.02, .15);
  for (size_t pixel = 0; pixel < kArea; ++pixel) {
    const size_t row = pixel / kSide, column = pixel % kSide;
    const double x = static_cast<double>(column) + .5, y = static_cast<double>(row) + .5;
    const double dx = x - x0, dy = y - y0;
    const double inside =
        std::clamp(.5 - radius * Distance(figure, c * dx + s * dy, c * dy - s * dx), 0.0, 1.0);
    const double along = ((x - 16) * std::cos(slope) + (y - 16) * std::sin(slope)) / kSide + .5;
    const double mix = std::clamp(along + waves * std::sin(wave_x * x + wave_y * y + phase), 0.0, 1.0);
    const double from_line = std::abs((x - 16) * std::cos(line) + (y - 16) * std::sin(line) - line_at);
    const bool strays = from_line < .6 || std::hypot(x - dot_x, y - dot_y) < dot;
    for (size_t channel = 0; channel < 3; ++channel) {
      double level = paint.background[channel] * (1 - mix) + paint.other[channel] * mix;
      if (strays) level = paint.stray[channel];
      level += (paint.figure[channel] - level) * inside;
      level += noise * (rng->Uniform() + rng->Uniform() - 1);
      image[channel * kArea + pixel] = static_cast<uint8_t>(255 * std::clamp(level, 0.0, 1.0));
    }
  }
}

}  // namespace

std::shared_ptr<const ImageDataset> SyntheticPictures(Subset subset, uint64_t seed, int64_t count) {
  const size_t samples = RequiredCount(
      "SyntheticPictures", count, subset == Subset::kTrain ? kDefaultTrainPictures : kDefaultTestPictures);
  auto pixels = RoomForSamples<uint8_t>("SyntheticPictures", samples, 3 * kArea);
  auto labels = RoomForSamples<uint8_t>("SyntheticPictures", samples, 1);
  for (size_t index = 0; index < labels.size(); ++index) {
    Rng rng(DeriveSeed(seed, static_cast<uint64_t>(subset), index));
    labels[index] = static_cast<uint8_t>(rng.Below(kClasses));
    Draw(labels[index], &rng, std::span(pixels).subspan(index * 3 * kArea, 3 * kArea));
  }
  return std::make_shared<ImageDataset>(Shape{3, kSide, kSide}, std::move(pixels), std::move(labels),
                                        kClasses);
}

}  // namespace sluice
