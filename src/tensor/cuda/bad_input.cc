#include "tensor/cuda/bad_input.h"

#include <string>

#include "base/strings.h"
#include "tensor/bad_input.h"

namespace sluice::cuda {

Error ErrorOf(const BadInput& input) {
  const std::string value = input.is_number != 0 ? StrCat(input.number) : StrCat(input.whole);
  switch (input.kind) {
    case BadInputKind::kLabel:
      return BadLabel(value, input.place, input.limit);
    case BadInputKind::kId:
      return BadId(value, input.place, input.limit);
    case BadInputKind::kLength:
      break;
  }
  return BadLength(value, input.place, input.limit);
}

}  // namespace sluice::cuda
