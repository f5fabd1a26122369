// Refuses null.
#pragma once

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

}  // namespace sluice
