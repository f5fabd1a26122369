// Whole files: read with a limit, written so that a reader sees the old file or the new one and never a part.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/result.h"

namespace sluice {

// kInvalidArgument for a path with a NUL byte: the system would take what is before it for the whole path.
// Whoever opens files below checks it.
Status ValidatePath(const std::string& path);

// kInvalidArgument for an empty path, too; the message begins with `what`, who takes the path ("KeepBest").
Status ValidateFileName(const std::string& path, const std::string& what);

// A regular file's contents. Failures: kNotFound, kPermissionDenied, kInvalidArgument (a folder, a device),
// kResourceExhausted (longer than max_bytes), kDataLoss (cut short while it was read).
Result<Buffer> ReadFile(const std::string& path, uint64_t max_bytes);

// A file that is read in parts. Thread safety: its methods are called by several threads at once.
class RandomAccessFile {
 public:
  // Failures: as ReadFile's.
  static Result<RandomAccessFile> Open(const std::string& path);
  ~RandomAccessFile();
  RandomAccessFile(RandomAccessFile&& other) noexcept;
  RandomAccessFile& operator=(RandomAccessFile&&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // when it was opened
  // Fills `into` from `offset` on; offset + into.size() <= size(). Failures: kDataLoss (the file was cut
  // short since), kUnavailable.
  Status ReadAt(uint64_t offset, MutableBytes into) const;

 private:
  RandomAccessFile(std::string path, int fd, uint64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}
  std::string path_;
  int fd_;
  uint64_t size_;
};

// Files without a name, as the kernel makes them. A test puts another in its place.
class NamelessFiles {
 public:
  virtual ~NamelessFiles() = default;
  virtual int Open(const std::string& folder) const;         // a descriptor to write to; -1: there are none
  virtual bool Link(int fd, const std::string& name) const;  // whether the file is called `name` now
};

// Writes `pieces` one after another into a file without a name in the same folder, flushes them to the disk,
// gives it a temporary name and renames that. A failure leaves whatever stood at `path` as it was and no
// temporary file, and so does the process's end at any moment but between the last two steps, from which
// HeldFileNames keeps it away, but not kill -9: then the whole file is left as "<path>.<hex>.tmp" (where the
// system has no nameless files or does not let them be named, a part of it). A link is followed.
Status WriteFileAtomically(const std::string& path, std::span<const Bytes> pieces,
                           const NamelessFiles& nameless_files = NamelessFiles());
inline Status WriteFileAtomically(const std::string& path, std::initializer_list<Bytes> pieces) {
  return WriteFileAtomically(path, std::span(pieces.begin(), pieces.size()));
}

// While one is held no file has its temporary name: for who ends the process in the middle of things.
class HeldFileNames {
 public:
  // Not held when a file still had such a name after `patience`.
  explicit HeldFileNames(Duration patience);
  ~HeldFileNames();
  HeldFileNames(const HeldFileNames&) = delete;
  HeldFileNames& operator=(const HeldFileNames&) = delete;
  bool held() const { return held_; }

 private:
  const bool held_;
};

}  // namespace sluice
