// Whole files.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::examples {

// The contents. Throws sluice::Error: kNotFound, kPermissionDenied, kInvalidArgument for what is no file,
// kResourceExhausted for one of more than `max_bytes` or where there is no memory for it, kUnavailable.
std::string ReadFile(const std::string& path, uint64_t max_bytes);
// Under a temporary name beside it first: whoever reads sees the old file or the new one. Throws
// sluice::Error(kUnavailable).
void WriteFile(const std::string& path, const std::string& text);

}  // namespace sluice::examples
