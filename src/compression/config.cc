#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/strings.h"
#include "sluice/compression.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::string_view kNames[] = {"none", "2bit", "1bit", "fp16", "bf16", "topk"};  // by type
constexpr auto kLast = static_cast<Compression>(std::size(kNames) - 1);
static_assert(kLast == Compression::kTopK);

}  // namespace

std::string_view Name(Compression type) {
  return type <= kLast ? kNames[static_cast<size_t>(type)] : "unknown";
}

Compression CompressionFromName(const std::string& name) {
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) {
    throw Error(ErrorCode::kInvalidArgument, StrCat("there is no gradient compression '", StrPrintable(name),
                                                    "'; there are ", StrJoin(kNames)));
  }
  return static_cast<Compression>(found - std::begin(kNames));
}

std::string InvalidReason(const GradientCompression& compression) {
  const auto why = [](const auto&... text) { return StrCat("gradient compression: ", text...); };
  if (compression.type > kLast) return why("type ", static_cast<int>(compression.type), " is unknown");
  if (compression.weights != Compression::kNone && compression.weights != Compression::kFloat16 &&
      compression.weights != Compression::kBFloat16)
    return why("weights is ", Name(compression.weights), "; they travel as none, fp16 or bf16");
  if (!std::isfinite(compression.threshold))
    return why("threshold is ", compression.threshold, "; it must be finite");
  if (compression.type == Compression::k2Bit && !(compression.threshold > 0))
    return why("threshold is ", compression.threshold, "; 2bit needs one above 0");
  if (!(compression.ratio > 0 && compression.ratio <= 1))
    return why("ratio is ", compression.ratio, "; it must be above 0 and at most 1");
  return {};
}

}  // namespace sluice
