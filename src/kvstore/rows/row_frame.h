// The wire format of some rows of one part: n ids (int64, ascending),
// followed by n rows, one after another. n follows from the number of bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "base/buffer.h"
#include "kvstore/plan/placement.h"

namespace sluice::kvstore {

inline int64_t IdAt(Bytes ids, size_t i) {
  int64_t id;
  std::memcpy(&id, ids.data() + i * sizeof(id), sizeof(id));
  return id;
}

// A view of a frame, at any alignment. It refers to `bytes`.
class RowFrame {
 public:
  static size_t BytesOf(size_t rows, size_t row_bytes) { return rows * (sizeof(int64_t) + row_bytes); }

  // `scale` is a factor for the elements of gradients that are 16-bit floats.
  RowFrame(Bytes bytes, size_t row_bytes, float scale = 1)
      : bytes_(bytes),
        row_bytes_(row_bytes),
        size_(bytes.size() / (sizeof(int64_t) + row_bytes)),
        scale_(scale) {}
  float scale() const { return scale_; }
  size_t size() const { return size_; }
  int64_t id(size_t i) const { return IdAt(bytes_, i); }
  const std::byte* row(size_t i) const { return bytes_.data() + size_ * sizeof(int64_t) + i * row_bytes_; }

 private:
  Bytes bytes_;
  size_t row_bytes_;
  size_t size_;
  float scale_;
};

// Why ids, or a frame, that came over the network are invalid; empty when they
// are valid: ids ascend, exist and belong to the part, and the frame's size fits.
std::string InvalidIdsReason(Bytes ids, const plan::RowPlaces& places, uint32_t part);
std::string InvalidRowsReason(Bytes frame, size_t row_bytes, const plan::RowPlaces& places, uint32_t part);

}  // namespace sluice::kvstore
