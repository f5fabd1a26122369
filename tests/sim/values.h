// A worker's array that receives values: they are copied into its own memory, or it adopts leased memory.
#pragma once

#include "base/buffer_slot.h"

namespace sluice::testing {

class Values final : public BufferSlot {
 public:
  explicit Values(std::shared_ptr<Buffer> own) : own_(std::move(own)) {}

  void Adopt(Frame frame) override {
    adopted_ = std::move(frame);
    ++adoptions_;
  }
  MutableBytes RestoreOwnBuffer() override {
    adopted_ = Frame();
    return own_->bytes();
  }
  size_t size() const override { return own_->size(); }
  const float* data() const {
    return reinterpret_cast<const float*>(adopted_.leased() ? adopted_.data() : own_->data());
  }
  int adoptions() const { return adoptions_; }

 private:
  const std::shared_ptr<Buffer> own_;
  Frame adopted_;
  int adoptions_ = 0;
};

}  // namespace sluice::testing
