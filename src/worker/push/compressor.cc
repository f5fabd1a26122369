#include "worker/push/compressor.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "tensor/access.h"

namespace sluice::worker {
namespace {

size_t BytesOf(const GradientCompression& how, DType dtype, const std::vector<size_t>& parts) {
  size_t bytes = 0;
  for (const size_t elements : parts) bytes += compression::EncodedBytes(how, dtype, elements);
  return bytes;
}

std::shared_ptr<Buffer> Zeros(size_t elements) {
  auto buffer = std::make_shared<Buffer>(elements * sizeof(float));
  std::memset(buffer->data(), 0, buffer->size());
  return buffer;
}

}  // namespace

Compressor::Compressor(Label what, std::vector<size_t> parts)
    : what_(std::move(what)), parts_(std::make_shared<const std::vector<size_t>>(std::move(parts))) {}

Compressor::Outgoing Compressor::Compress(const GradientCompression& how, const NDArray& gradient,
                                          const collective::HostWork& host_work) {
  const DType dtype = gradient.dtype();
  const bool applies = compression::Applies(how.type, dtype);
  if (!applies && residual_ == nullptr) return {gradient, {}};
  const GradientCompression now = applies ? how : GradientCompression{};
  const auto bytes = static_cast<int64_t>(BytesOf(now, dtype, *parts_));
  if (!encoded_.valid() || encoded_.size() != bytes)
    encoded_ = NDArray::Empty({bytes}, cpu_pinned(0), DType::kUInt8);
  if (residual_ == nullptr) residual_ = Zeros(static_cast<size_t>(gradient.size()));

  Events after = PendingUses(encoded_);
  after.push_back(last_.Quietly());  // its residual is there
  after.push_back(ReadyToRead(gradient));
  last_ = host_work(gradient.context(), what_, after,
                    [now, dtype, parts = parts_, from = HostFrame(gradient), target = HostFrame(encoded_),
                     to = MutableHostBytes(encoded_).data(), residual = residual_] {
                      size_t element = 0;
                      std::byte* out = to;
                      for (const size_t elements : *parts) {
                        compression::Encode(now, dtype, from.data() + element * SizeOf(dtype), elements,
                                            residual->as<float>() + element, out);
                        element += elements;
                        out += compression::EncodedBytes(now, dtype, elements);
                      }
                    });
  AddReader(gradient, last_);
  SetWriter(encoded_, last_);
  if (!applies) residual_ = nullptr;
  return {encoded_, now};
}

}  // namespace sluice::worker
