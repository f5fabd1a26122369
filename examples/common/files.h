// Reads and writes whole files.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::examples {

// Returns the contents of `path`. Throws sluice::Error: kNotFound, kPermissionDenied, kInvalidArgument if
// `path` is not a regular file, kResourceExhausted if the file has more than `max_bytes` bytes or memory for
// it runs out, kUnavailable if reading fails.
std::string ReadFile(const std::string& path, uint64_t max_bytes);
// Replaces the file at `path`. The text is first written to a temporary file in the same folder and then
// renamed, so a concurrent reader sees either the old file or the new one, never a part. Throws
// sluice::Error(kUnavailable) if writing or renaming fails.
void WriteFile(const std::string& path, const std::string& text);

}  // namespace sluice::examples
