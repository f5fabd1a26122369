#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kvstore/rows/update_rows.h"

namespace sluice::kvstore {
namespace {

// The input is five bytes (rows, columns, parts, part, shift) and the frame of a push. An accepted frame,
// pushed by two workers, must add up in its rows.
void CheckFrame(Bytes input) {
  constexpr size_t kHeader = 5;
  if (input.size() < kHeader) return;
  const auto setting = [&](size_t i) { return static_cast<int64_t>(std::to_integer<uint8_t>(input[i])); };
  const plan::RowPlaces places{.rows = setting(0) + 1,
                               .row_elements = setting(1) % 40 + 1,
                               .parts = static_cast<uint32_t>(std::min(setting(2) % 32, setting(0)) + 1)};
  const uint32_t part = static_cast<uint32_t>(setting(3)) % places.parts;
  const wire::KeySpec spec{.name = "table",
                           .dtype = DType::kInt32,
                           .shape = {places.rows, places.row_elements},
                           .rows = RowInit::Constant(7)};
  RowTable table(spec);
  // The frame may begin at any alignment.
  const size_t shift = static_cast<size_t>(setting(4)) % 8;
  std::vector<std::byte> moved(shift);
  moved.insert(moved.end(), input.begin() + kHeader, input.end());
  const Bytes bytes = Bytes(moved).subspan(shift);
  if (!InvalidRowsReason(bytes, table.row_bytes(), places, part).empty()) return;
  const RowFrame frames[] = {{bytes, table.row_bytes()}, {bytes, table.row_bytes()}};
  UpdateRows({}, {.spec = &spec, .num_update = 1}, frames, &table);
  SLUICE_CHECK(table.size() == frames[0].size());
  std::vector<int32_t> row(static_cast<size_t>(places.row_elements)), pushed(row.size());
  for (size_t i = 0; i < frames[0].size(); ++i) {
    table.Read(frames[0].id(i), reinterpret_cast<std::byte*>(row.data()));
    std::memcpy(pushed.data(), frames[0].row(i), table.row_bytes());
    for (size_t c = 0; c < row.size(); ++c)
      SLUICE_CHECK(static_cast<uint32_t>(row[c]) == 2 * static_cast<uint32_t>(pushed[c]));
  }
}

}  // namespace
}  // namespace sluice::kvstore

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::kvstore::CheckFrame({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
