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
  };
  // The gradient itself where `how` does not apply to it; else its parts, encoded by `host_work` as soon as
  // `gradient`, an array in host memory, is there. Once a key that was compressed no longer is, what was kept
  // goes with its next gradient.
  Outgoing Compress(const GradientCompression& how, const NDArray& gradient,
                    const collective::HostWork& host_work);

 private:
  Label what_;  // names the work in errors
  std::shared_ptr<const std::vector<size_t>> parts_;
  NDArray encoded_;                   // of the push before, whose memory serves the next
  std::shared_ptr<Buffer> residual_;  // float32; null: nothing is kept
  Event last_;                        // the end of the last encoding
};

}  // namespace sluice::worker
