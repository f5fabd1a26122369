// Encodes the gradients of one key, and keeps the residual (what an encoding leaves out) for the next push.
//
// Thread safety: one caller.
#pragma once

#include <memory>
#include <vector>

#include "base/buffer.h"
#include "base/label.h"
#include "collective/reducer.h"
#include "compression/codec.h"
#include "sluice/ndarray.h"
#include "tensor/stream.h"
#include "worker/operation.h"

namespace sluice::worker {

class Compressor {
 public:
  Compressor() = default;
  // `what` names the work in errors; `parts` are the numbers of elements of the key's parts, in order.
  Compressor(Label what, std::vector<size_t> parts);

  // Returns what `push` sends. Its `compression` is the encoding that is requested, and its `exponent` says
  // that the gradient is the contents of `gradient`, an array in host memory, times 2^exponent.
  // Where the encoding does not apply to the gradient's type and there is no residual, this is the array
  // itself; else its parts, which `host_work` encodes as soon as the array is ready to read. `compression`
  // and `exponent` then describe what is returned. After compression has been switched off, the next
  // gradients carry the residual.
  //
  // `scale` is what the round divides by: the number of samples or the divisor, above 0. The threshold of
  // 2bit and the magnitude 1 of 1bit are meant for the scale of the first push. When the scale of a push
  // differs, for example in a smaller last batch, they and the residual are multiplied by the ratio.
  NDArray Compress(const NDArray& gradient, double scale, const collective::HostWork& host_work,
                   Operation* push);
  // Whether there is no residual, and the last push was not compressed.
  bool Idle() const { return kept_ == nullptr; }
  // `done` ends the push of what Compress has returned last.
  void Sent(const Event& done) { sent_ = done; }

 private:
  struct Kept;
  bool ResidualIsNegligible() const;

  Label what_;
  std::shared_ptr<const std::vector<size_t>> parts_;
  NDArray encoded_;             // the last encoding; its memory is reused
  std::shared_ptr<Kept> kept_;  // the residual; null: none
  bool switched_off_ = false;   // compression did not apply at the last encoding
  double first_scale_ = 1;      // scale of the first push since kept_ exists
  Event last_;                  // the end of the last encoding
  Event sent_;                  // the end of the last push
};

}  // namespace sluice::worker
