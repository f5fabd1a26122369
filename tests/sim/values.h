// A worker's array that receives values: they are copied into its own memory, or it adopts leased memory.
#pragma once

#include "base/adopter.h"

namespace sluice::testing {

class Values final : public Adopter {
 public:
  explicit Values(std::shared_ptr<Buffer> own) : own_(std::move(own)) {}

  void Adopt(Frame frame) override {
    lent_ = std::move(frame);
    ++adoptions_;
  }
  MutableBytes RestoreOwnBuffer() override {
    lent_ = Frame();
    return own_->bytes();
  }
  size_t size() const override { return own_->size(); }
  const float* data() const {
    return reinterpret_cast<const float*>(lent_.leased() ? lent_.data() : own_->data());
  }
  int adoptions() const { return adoptions_; }

 private:
  const std::shared_ptr<Buffer> own_;
  Frame lent_;
  int adoptions_ = 0;
};

}  // namespace sluice::testing
