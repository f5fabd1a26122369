// What data sets refuse.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/strings.h"
#include "sluice/dataset.h"
#include "sluice/error.h"

namespace sluice {

inline const std::shared_ptr<const Dataset>& Required(const std::shared_ptr<const Dataset>& dataset,
                                                      std::string_view who) {
  if (!dataset) throw Error(ErrorCode::kInvalidArgument, StrCat(who, ": no dataset was given"));
  return dataset;
}

// Sample `index` is one of `size`.
inline void RequireIndex(std::string_view who, int64_t index, int64_t size) {
  if (index >= 0 && index < size) return;
  throw Error(ErrorCode::kInvalidArgument,
              StrCat(who, ": sample ", index, " was asked for; there are ", size, ", from 0 on"));
}

// What a sample or label is written to has room for `needed` values and no more.
inline void RequireRoom(std::string_view who, size_t given, size_t needed) {
  if (given == needed) return;
  throw Error(ErrorCode::kInvalidArgument,
              StrCat(who, ": ", needed, " values are to be written to memory for ", given));
}

// `who` takes classes 0 to num_classes - 1; label `index` is one of them.
inline void RequireLabel(std::string_view who, size_t index, int64_t label, int64_t num_classes) {
  if (label >= 0 && label < num_classes) return;
  throw Error(ErrorCode::kInvalidArgument,
              StrCat(who, ": label ", index, " is ", label, "; expected ",
                     label < 0 ? "at least 0" : StrCat("0 to ", num_classes - 1)));
}

}  // namespace sluice
