#include "base/strings.h"
#include "kvstore/rows/row_frame.h"

namespace sluice::kvstore {

std::string InvalidIdsReason(Bytes ids, const plan::RowPlaces& places, uint32_t part) {
  if (ids.size() % sizeof(int64_t) != 0) return StrCat(ids.size(), " bytes are no list of row ids");
  int64_t last = -1;
  for (size_t i = 0; i < ids.size() / sizeof(int64_t); ++i) {
    const int64_t id = IdAt(ids, i);
    if (id < 0 || id >= places.rows)
      return StrCat("row ", id, " was named; the key has rows 0 to ", places.rows - 1);
    if (places.PartOf(id) != part) return StrCat("row ", id, " is of part ", places.PartOf(id));
    if (id <= last) return StrCat("row ", id, " comes after row ", last);
    last = id;
  }
  return {};
}

std::string InvalidRowsReason(Bytes frame, size_t row_bytes, const plan::RowPlaces& places, uint32_t part) {
  const size_t each = sizeof(int64_t) + row_bytes;
  if (frame.size() % each != 0) {
    return StrCat(frame.size(), " bytes are no rows, which take ", each, " bytes each with their id");
  }
  return InvalidIdsReason(frame.first(frame.size() / each * sizeof(int64_t)), places, part);
}

}  // namespace sluice::kvstore
