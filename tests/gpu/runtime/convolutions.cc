// Convolutions on a test machine, in place of cuDNN: loops on the stream's thread.
#include "tensor/cuda/convolutions.h"

#include <vector>

#include "gpu/runtime/rounding.h"
#include "gpu/runtime/stream.h"
#include "sluice/error.h"
#include "tensor/cuda/error.h"

namespace sluice::cuda {
namespace {

// Calls add(place in x, place in weight, place in out) for every product of the convolution.
template <typename Add>
void ForProducts(const ConvolutionProblem& problem, Add&& add) {
  const ConvShape& s = problem.shape;
  const WindowShape& w = s.window;
  const int64_t own_in = s.in_channels / s.groups, own_out = s.out_channels / s.groups;
  const bool last = problem.layout == ImageLayout::kChannelsLast;
  const auto place = [last](int64_t n, int64_t c, int64_t y, int64_t x, int64_t channels, int64_t height,
                            int64_t width) {
    return last ? ((n * height + y) * width + x) * channels + c
                : ((n * channels + c) * height + y) * width + x;
  };
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t o = 0; o < s.out_channels; ++o)
      for (int64_t i = 0; i < own_in; ++i)
        for (int64_t row = 0; row < s.out_height(); ++row)
          for (int64_t column = 0; column < s.out_width(); ++column)
            for (int64_t kh = 0; kh < w.height; ++kh)
              for (int64_t kw = 0; kw < w.width; ++kw) {
                const int64_t y = row * w.stride_height - w.pad_height + kh * w.dilation_height,
                              x = column * w.stride_width - w.pad_width + kw * w.dilation_width;
                if (y < 0 || y >= s.in_height || x < 0 || x >= s.in_width) continue;
                add(place(n, o / own_out * own_in + i, y, x, s.in_channels, s.in_height, s.in_width),
                    ((o * own_in + i) * w.height + kh) * w.width + kw,
                    place(n, o, row, column, s.out_channels, s.out_height(), s.out_width()));
              }
}

void Compute(const ConvolutionProblem& problem, const ConvolutionArrays& arrays) {
  const ConvShape& s = problem.shape;
  const auto run = [&](const float* target, int64_t n, auto term) {
    std::vector<double> sums(static_cast<size_t>(n));
    ForProducts(problem, [&](int64_t x, int64_t weight, int64_t out) { term(sums, x, weight, out); });
    for (int64_t i = 0; i < n; ++i)
      const_cast<float*>(target)[i] = static_cast<float>(sums[static_cast<size_t>(i)]);
  };
  const auto at = [&s](const float* array, int64_t i) {
    return double{emulation::Rounded(array[i], s.arithmetic)};
  };
  switch (problem.pass) {
    case ConvolutionPass::kForward:
      return run(arrays.out, s.batch * s.out_channels * s.out_height() * s.out_width(),
                 [&](auto& sums, int64_t x, int64_t weight, int64_t out) {
                   sums[static_cast<size_t>(out)] += at(arrays.x, x) * at(arrays.weight, weight);
                 });
    case ConvolutionPass::kGradX:
      return run(arrays.x, s.batch * s.in_channels * s.in_height * s.in_width,
                 [&](auto& sums, int64_t x, int64_t weight, int64_t out) {
                   sums[static_cast<size_t>(x)] += at(arrays.out, out) * at(arrays.weight, weight);
                 });
    case ConvolutionPass::kGradWeight:
      return run(arrays.weight,
                 s.out_channels * (s.in_channels / s.groups) * s.window.height * s.window.width,
                 [&](auto& sums, int64_t x, int64_t weight, int64_t out) {
                   sums[static_cast<size_t>(weight)] += at(arrays.x, x) * at(arrays.out, out);
                 });
  }
}

}  // namespace

class Convolutions::State {
 public:
  explicit State(cudaStream_t stream) : stream_(stream) {}
  void Run(const ConvolutionProblem& problem, const ConvolutionArrays& arrays) {
    const auto places = reinterpret_cast<uintptr_t>(arrays.x) | reinterpret_cast<uintptr_t>(arrays.weight) |
                        reinterpret_cast<uintptr_t>(arrays.out);
    if (problem.aligned && places % 16 != 0)
      throw Error(ErrorCode::kFailedPrecondition, "arrays of a convolution are not aligned as its plan is");
    stream_->Enqueue([problem, arrays] { Compute(problem, arrays); });
  }

 private:
  const cudaStream_t stream_;
};

Convolutions::Convolutions(cudaStream_t stream, Workspace&) : state_(std::make_unique<State>(stream)) {}

Convolutions::~Convolutions() = default;

void Convolutions::Run(const ConvolutionProblem& problem, const ConvolutionArrays& arrays) {
  state_->Run(problem, arrays);
}

}  // namespace sluice::cuda
