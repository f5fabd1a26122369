#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

// The 64-bit FNV-1a hash (Fowler, Noll, Vo). It is the same on every machine, which
// std::hash does not promise.
constexpr uint64_t Fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace sluice
