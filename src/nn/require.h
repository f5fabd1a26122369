// Checks of the arguments and inputs of layers. All throw Error(kInvalidArgument) unless they say otherwise.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "sluice/error.h"
#include "sluice/nn/window.h"
#include "sluice/ops.h"
#include "sluice/shape.h"
#include "tensor/storage.h"

namespace sluice::nn {

[[noreturn]] inline void ThrowInvalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

// Throws Error(kFailedPrecondition), which names `layer` and `which`, when `array` is no array.
template <typename Layer>
void RequireArrayFor(const Layer& layer, std::string_view which, const NDArray& array) {
  if (!array.valid()) internal::ThrowNoArray(StrCat(layer), which);
}

inline std::string ToString(const Window& window) {
  return StrCat(window.height, "x", window.width);
}

inline void RequireAtLeast(std::string_view what, int64_t value, int64_t least) {
  if (value < least) ThrowInvalid(StrCat(what, " is ", value, "; it must be at least ", least));
}

inline constexpr int64_t kMostExtent = ops::Window2D::kMost;

inline void RequireExtent(std::string_view what, const Window& window, int64_t least) {
  if (std::min(window.height, window.width) < least || std::max(window.height, window.width) > kMostExtent) {
    ThrowInvalid(
        StrCat(what, " is ", ToString(window), "; both numbers must be from ", least, " to ", kMostExtent));
  }
}

// Requires that x is [batch, channels, height, width] and has room for at least one position of the window.
// `channels` 0 allows any number. The message names `layer`.
template <typename Layer>
void RequireImage(const Layer& layer, const Shape& x, int64_t channels, const Window& window,
                  const Window& padding) {
  if (x.ndim() != 4 || x[1] == 0 || (channels != 0 && x[1] != channels)) {
    ThrowInvalid(StrCat(layer, " expects input of shape [batch, ",
                        channels == 0 ? "channels" : std::to_string(channels), ", height, width] and got ",
                        x));
  }
  if (std::max(x[2], x[3]) > kMostExtent)
    ThrowInvalid(StrCat(layer, " expects images of at most ", kMostExtent, " rows and columns and got ", x));
  if (x[2] + 2 * padding.height < window.height || x[3] + 2 * padding.width < window.width) {
    ThrowInvalid(StrCat(layer, " expects input of at least ", ToString(window), " with its padding of ",
                        ToString(padding), " and got ", x));
  }
}

}  // namespace sluice::nn
