// Whole files: read with a limit, written so that a reader sees the old file or the new one and never a part.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/buffer.h"
#include "base/result.h"

namespace sluice {

// A regular file's contents. Failures: kNotFound, kPermissionDenied, kInvalidArgument (a folder, a device),
// kResourceExhausted (longer than max_bytes), kDataLoss (cut short while it was read).
Result<Buffer> ReadFile(const std::string& path, uint64_t max_bytes);

// Writes `pieces` one after another into a file without a name in the same folder, flushes them to the disk,
// gives it a temporary name and renames that. A failure leaves whatever stood at `path` as it was and no
// temporary file, and so does the process's end at any moment but between the last two steps: then the whole
// file is left as "<path>.<hex>.tmp" (where the file system has no nameless files, a part of it). A link is
// followed.
Status WriteFileAtomically(const std::string& path, std::span<const Bytes> pieces);
inline Status WriteFileAtomically(const std::string& path, std::initializer_list<Bytes> pieces) {
  return WriteFileAtomically(path, std::span(pieces.begin(), pieces.size()));
}

}  // namespace sluice
