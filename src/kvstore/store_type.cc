#include "sluice/store_type.h"

#include <algorithm>
#include <vector>

#include "base/nearest.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr StoreType kLocal{};
constexpr StoreType kDevice{.on_devices = true};
constexpr StoreType kNccl{.on_devices = true, .nccl = true};
constexpr StoreType kDistSync{.distributed = true};
constexpr StoreType kDistDeviceSync{.distributed = true, .on_devices = true};
constexpr StoreType kDistAsync{.distributed = true, .async = true};
constexpr StoreType kDistDeviceAsync{.distributed = true, .async = true, .on_devices = true};

struct Named {
  const char* name;
  StoreType type;
};
// The name that a type has in messages comes before its other names.
constexpr Named kNames[] = {{"local", kLocal},
                            {"device", kDevice},
                            {"nccl", kNccl},
                            {"dist_sync", kDistSync},
                            {"dist_device_sync", kDistDeviceSync},
                            {"dist_async", kDistAsync},
                            {"dist_device_async", kDistDeviceAsync},
                            {"local_update_cpu", kLocal},
                            {"local_allreduce_cpu", kLocal},
                            {"local_allreduce_device", kDevice},
                            {"dist", kDistSync},
                            {"dist_device", kDistDeviceSync},
                            {"dist_sync_device", kDistDeviceSync},
                            {"dist_async_device", kDistDeviceAsync}};
constexpr size_t kTypes = 7;

[[noreturn]] void ThrowUnknown(std::string_view given, const std::string& lower) {
  std::vector<std::string> names, types;
  for (const Named& named : kNames) {
    names.emplace_back(named.name);
    if (types.size() < kTypes) types.emplace_back(named.name);
  }
  const auto nearest = Nearest(lower, names);
  throw Error(ErrorCode::kInvalidArgument, StrCat("there is no store type '", given, "'",
                                                  nearest ? StrCat(" (did you mean ", *nearest, "?)") : "",
                                                  "; the types are ", StrJoin(types)));
}

}  // namespace

StoreType StoreType::Parse(std::string_view name) {
  std::string lower(name);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const auto* const found =
      std::ranges::find_if(kNames, [&](const Named& named) { return lower == named.name; });
  if (found == std::end(kNames)) ThrowUnknown(name, lower);
  return found->type;
}

std::string StoreType::Name() const {
  return std::ranges::find_if(kNames, [this](const Named& named) { return named.type == *this; })->name;
}

}  // namespace sluice
