// What a worker pushes of one key in place of its gradient, and what it keeps for the next push.
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

namespace sluice::worker {

class Compressor {
 public:
  Compressor() = default;
  // Parts of so many elements each, in order.
  Compressor(Label what, std::vector<size_t> parts);

  // What a push is to send: `bytes` of a key whose gradient has been encoded by `how`.
  struct Outgoing {
    NDArray bytes;
    GradientCompression how;
    uint32_t exponent = 0;  // of what is not encoded
  };
  // The gradient itself where `how` does not apply to it; else its parts, encoded by `host_work` as soon as
  // `gradient`, an array in host memory, is there. Once a key that was compressed no longer is, what was kept
  // goes with its next gradients. `scale`: what the round divides by, samples or the divisor, above 0. The
  // first push's is what 2bit's threshold and 1bit's 1 are meant for: where another's is smaller, an uneven
  // last batch, these and what was kept are smaller, too. The gradient is what the array holds * 2^exponent.
  Outgoing Compress(const GradientCompression& how, const NDArray& gradient, uint32_t exponent, double scale,
                    const collective::HostWork& host_work);
  // Nothing is kept of earlier pushes, nor was the last one compressed.
  bool Idle() const { return kept_ == nullptr; }
  // When what Compress gave has been sent, or has not.
  void Sent(const Event& done) { sent_ = done; }

 private:
  struct Kept;
  bool KeepsNothing() const;

  Label what_;  // names the work in errors
  std::shared_ptr<const std::vector<size_t>> parts_;
  NDArray encoded_;             // of the push before, whose memory serves the next
  std::shared_ptr<Kept> kept_;  // the residual; null: nothing is kept
  bool switched_off_ = false;   // at the last encoding
  double first_scale_ = 1;      // of those since there is a residual
  Event last_;                  // the end of the last encoding
  Event sent_;                  // and of the push that it was for
};

}  // namespace sluice::worker
