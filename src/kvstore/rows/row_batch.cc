// Batches of rows: sorts the ids of a call by part and id, sums rows that are
// named more than once, and writes the frames that a push sends. All functions are
// pure. Stores call them on the caller's thread and in the work that they enqueue;
// sums run in the order of the call's positions, so results are reproducible.
#include "kvstore/rows/row_batch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/inline_vector.h"
#include "kvstore/update/sum.h"
#include "tensor/types/half.h"

namespace sluice::kvstore {
namespace {

struct Named {
  uint64_t order;  // orders rows by part, then by id
  uint32_t position;
};

// Sorts by `order`, which is at most `most`, and keeps the order of equal ones: a radix
// sort from the lowest digit to the highest, or std::stable_sort when there are few.
void SortByOrder(std::vector<Named>& named, uint64_t most) {
  constexpr int kBits = 11;
  constexpr uint64_t kDigits = uint64_t{1} << kBits;
  constexpr size_t kFew = 512;
  if (named.size() < kFew) {
    std::ranges::stable_sort(named, {}, &Named::order);
    return;
  }
  std::vector<Named> sorted(named.size());
  for (int shift = 0; shift < 64 && most >> shift > 0; shift += kBits) {
    std::array<size_t, kDigits> next{};
    for (const Named& each : named) ++next[each.order >> shift & (kDigits - 1)];
    size_t begin = 0;
    for (size_t& place : next) begin += std::exchange(place, begin);
    for (const Named& each : named) sorted[next[each.order >> shift & (kDigits - 1)]++] = each;
    named.swap(sorted);
  }
}

template <typename Sum>
void SumAs(std::span<const Encoded> sources, size_t elements, std::byte* out) {
  constexpr size_t kBlock = 1024;
  Sum sum[kBlock];
  for (size_t first = 0; first < elements; first += kBlock) {
    const size_t n = std::min(kBlock, elements - first);
    SumBlock(sources, first, n, sum);
    std::memcpy(out + first * sizeof(Sum), sum, n * sizeof(Sum));
  }
}

bool FitsHalf(float value) {
  constexpr float kMostHalf = 65504;
  return !(std::abs(value) > kMostHalf) || !std::isfinite(value);
}

bool SumFloats(DType dtype, std::span<const Encoded> sources, size_t elements, std::byte* out,
               uint32_t exponent) {
  constexpr size_t kBlock = 1024;
  static_assert(kBlock % compression::kAligned == 0);
  const float times = std::ldexp(1.0f, -static_cast<int>(exponent));
  float sum[kBlock];
  bool fits = true;
  for (size_t first = 0; first < elements; first += kBlock) {
    const size_t n = std::min(kBlock, elements - first);
    SumBlock(dtype, sources, first, n, sum);
    for (size_t i = 0; i < n && times != 1; ++i) sum[i] *= times;
    std::byte* to = out + first * SizeOf(dtype);
    if (dtype == DType::kFloat16) {
      fits &= std::all_of(sum, sum + n, FitsHalf);
      FloatToHalf(sum, to, n);
    } else if (dtype == DType::kBFloat16) {
      FloatToBFloat16(sum, to, n);
    } else {
      std::memcpy(to, sum, n * sizeof(float));
    }
  }
  return fits;
}

}  // namespace

RowBatch MakeBatch(std::span<const int64_t> named, const plan::RowPlaces& places) {
  const auto rows_of_part = static_cast<uint64_t>(places.RowsOf(0));
  std::vector<Named> sorted(named.size());
  for (size_t i = 0; i < named.size(); ++i) {
    const uint64_t part = places.PartOf(named[i]);
    sorted[i] = {part * rows_of_part + places.WithinPart(named[i]), static_cast<uint32_t>(i)};
  }
  SortByOrder(sorted, places.parts * rows_of_part);

  RowBatch batch;
  batch.part_begin.assign(places.parts + 1, 0);
  batch.ids.reserve(named.size());
  batch.positions.reserve(named.size());
  batch.group_begin.reserve(named.size() + 1);
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i == 0 || sorted[i].order != sorted[i - 1].order) {
      const int64_t id = named[sorted[i].position];
      ++batch.part_begin[places.PartOf(id) + 1];
      batch.ids.push_back(id);
      batch.group_begin.push_back(i);
    }
    batch.positions.push_back(sorted[i].position);
  }
  batch.group_begin.push_back(sorted.size());
  for (size_t part = 0; part < places.parts; ++part) batch.part_begin[part + 1] += batch.part_begin[part];
  return batch;
}

bool SumRows(DType dtype, std::span<const std::byte* const> rows, size_t elements, std::byte* out,
             uint32_t exponent) {
  if (rows.size() == 1 && exponent == 0) {
    std::memcpy(out, rows.front(), elements * SizeOf(dtype));
    return true;
  }
  InlineVector<Encoded, 8> sources;
  for (const std::byte* row : rows) sources.push_back({row, elements * SizeOf(dtype)});
  const std::span<const Encoded> all(sources.begin(), sources.size());
  switch (dtype) {
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBFloat16:
      return SumFloats(dtype, all, elements, out, exponent);
    case DType::kFloat64:
      SumAs<double>(all, elements, out);
      break;
    case DType::kInt32:
      SumAs<int32_t>(all, elements, out);
      break;
    case DType::kInt64:
      SumAs<int64_t>(all, elements, out);
      break;
    case DType::kUInt8:
      SumAs<uint8_t>(all, elements, out);
      break;
  }
  return true;
}

bool WriteFrame(const RowBatch& batch, uint32_t part, DType dtype, size_t elements,
                FunctionRef<const std::byte*(uint32_t position)> at, std::byte* to, uint32_t exponent) {
  const std::span<const int64_t> ids = batch.IdsOf(part);
  if (ids.empty()) return true;
  std::memcpy(to, ids.data(), ids.size_bytes());
  to += ids.size_bytes();
  bool fits = true;
  InlineVector<const std::byte*, 8> rows;
  for (size_t i = batch.part_begin[part]; i < batch.part_begin[part + 1]; ++i) {
    rows.clear();
    for (const uint32_t position : batch.PositionsOf(i)) rows.push_back(at(position));
    fits &= SumRows(dtype, {rows.begin(), rows.size()}, elements, to, exponent);
    to += elements * SizeOf(dtype);
  }
  return fits;
}

uint32_t WriteFrames(const RowBatch& batch, DType dtype, size_t elements,
                     FunctionRef<const std::byte*(uint32_t position)> at,
                     FunctionRef<std::byte*(uint32_t part)> to_of) {
  const auto parts = static_cast<uint32_t>(batch.part_begin.size() - 1);
  bool fits = true;
  for (uint32_t part = 0; part < parts; ++part)
    fits &= WriteFrame(batch, part, dtype, elements, at, to_of(part));
  if (fits) return 0;
  size_t most = 1;
  for (size_t i = 0; i < batch.size(); ++i) most = std::max(most, batch.PositionsOf(i).size());
  const auto exponent = static_cast<uint32_t>(std::bit_width(most - 1));
  for (uint32_t part = 0; part < parts; ++part)
    WriteFrame(batch, part, dtype, elements, at, to_of(part), exponent);
  return exponent;
}

void SpreadRows(const RowBatch& batch, uint32_t part, size_t row_bytes, const std::byte* from,
                FunctionRef<std::byte*(uint32_t position)> at) {
  for (size_t i = batch.part_begin[part]; i < batch.part_begin[part + 1]; ++i, from += row_bytes)
    for (const uint32_t position : batch.PositionsOf(i)) std::memcpy(at(position), from, row_bytes);
}

}  // namespace sluice::kvstore
