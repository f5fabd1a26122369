#include "worker/push/compressor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tensor/access.h"

namespace sluice::worker {
namespace {

size_t BytesOf(const GradientCompression& how, DType dtype, const std::vector<size_t>& parts) {
  size_t bytes = 0;
  for (const size_t elements : parts) bytes += compression::EncodedBytes(how, dtype, elements);
  return bytes;
}

}  // namespace

Compressor::Compressor(Label what, std::vector<size_t> parts)
    : what_(std::move(what)), parts_(std::make_shared<const std::vector<size_t>>(std::move(parts))) {}

struct Compressor::Kept {
  Kept(size_t elements, double scale) : values(elements, 0.0f), scale(scale) {}
  // Converts the residual for a push with another scale.
  void ScaleTo(double next) {
    const auto by = static_cast<float>(next / std::exchange(scale, next));
    if (by == 1) return;
    for (float& value : values) value *= by;
  }
  std::vector<float> values;
  double scale;  // scale of the last push that was encoded
};

// Whether there is no residual worth sending: none at all, or one that a push without compression has sent
// and that consists of nothing but rounding errors of a 16-bit float.
bool Compressor::ResidualIsNegligible() const {
  constexpr float kRounding = 16;  // half of the distance between the largest fp16 numbers
  if (kept_ == nullptr) return true;
  return switched_off_ && last_.Succeeded() &&
         std::ranges::all_of(kept_->values, [](float value) { return std::abs(value) <= kRounding; });
}

NDArray Compressor::Compress(const NDArray& gradient, double scale, const collective::HostWork& host_work,
                             Operation* push) {
  const DType dtype = gradient.dtype();
  const bool applies = compression::Applies(push->compression, dtype);
  if (!applies) push->compression = {};
  if (!applies && ResidualIsNegligible()) {
    kept_ = nullptr;
    encoded_ = NDArray();
    return gradient;
  }
  const GradientCompression now = push->compression;
  const uint32_t exponent = std::exchange(push->exponent, 0);
  const auto bytes = static_cast<int64_t>(BytesOf(now, dtype, *parts_));
  // After a push has failed, its bytes may still be queued in the network, so their memory is not reused.
  const bool may_travel = sent_.Done() && !sent_.Succeeded();
  if (!encoded_.valid() || encoded_.size() != bytes || may_travel)
    encoded_ = NDArray::Empty({bytes}, gradient.context(), DType::kUInt8);
  if (kept_ == nullptr) {
    kept_ = std::make_shared<Kept>(static_cast<size_t>(gradient.size()), scale);
    first_scale_ = scale;
  }
  switched_off_ = !applies;

  Events after = PendingUses(encoded_);
  after.push_back(last_.Quietly());  // the last encoding has written the residual
  after.push_back(ReadyToRead(gradient));
  last_ = host_work(gradient.context(), what_, after,
                    [now, dtype, parts = parts_, from = HostFrame(gradient), target = HostFrame(encoded_),
                     to = MutableHostBytes(encoded_).data(), kept = kept_, scale, first = first_scale_,
                     times = std::ldexp(1.0f, static_cast<int>(exponent))] {
                      kept->ScaleTo(scale);
                      size_t element = 0;
                      std::byte* out = to;
                      for (const size_t elements : *parts) {
                        compression::Encode(now, dtype, from.data() + element * SizeOf(dtype), elements,
                                            kept->values.data() + element, out,
                                            static_cast<float>(scale / first), times);
                        element += elements;
                        out += compression::EncodedBytes(now, dtype, elements);
                      }
                    });
  AddReader(gradient, last_);
  SetWriter(encoded_, last_);
  return encoded_;
}

}  // namespace sluice::worker
