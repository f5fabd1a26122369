// Some rows of one part, as they travel: n ids (int64, ascending), then n rows, one behind the other. The
// bytes tell n.
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

// A view, at any alignment.
class RowFrame {
 public:
  static size_t BytesOf(size_t rows, size_t row_bytes) { return rows * (sizeof(int64_t) + row_bytes); }

  // `scale` multiplies the elements of gradients that are 16-bit floats.
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

// Of what came over the network; empty: sound. Ids ascend, exist and are of the part.
std::string InvalidIdsReason(Bytes ids, const plan::RowPlaces& places, uint32_t part);
std::string InvalidRowsReason(Bytes frame, size_t row_bytes, const plan::RowPlaces& places, uint32_t part);

}  // namespace sluice::kvstore
