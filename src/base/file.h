// Reads whole files, up to a limit, and replaces whole files: a reader sees the old file or the new one,
// never a part of one. The functions are thread-safe.
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

// Fails with kInvalidArgument for a path that has a NUL byte: the system would take the text before it for
// the whole path. RandomAccessFile::Open, ReadFile and WriteFileAtomically call it.
Status ValidatePath(const std::string& path);

// As ValidatePath, and fails for an empty path too. The message begins with `what`, the name of the function
// or class that was given the path ("KeepBest").
Status ValidateFileName(const std::string& path, const std::string& what);

// Returns the contents of a regular file. Failures: kNotFound, kPermissionDenied, kInvalidArgument (a folder,
// a device, a NUL byte in the path), kResourceExhausted (longer than max_bytes; no descriptor or memory),
// kDataLoss (the file was cut short while it was read), kUnavailable (any other error of the system).
Result<Buffer> ReadFile(const std::string& path, uint64_t max_bytes);

// A file that is read in parts. Several threads may call its methods at once.
class RandomAccessFile {
 public:
  // Opens a regular file. Failures are those of ReadFile.
  static Result<RandomAccessFile> Open(const std::string& path);
  ~RandomAccessFile();
  RandomAccessFile(RandomAccessFile&& other) noexcept;
  RandomAccessFile& operator=(RandomAccessFile&&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // when it was opened
  // Fills `into` with the file's bytes from `offset` on; offset + into.size() <= size() is checked. Failures:
  // kDataLoss (the file was cut short since it was opened), kUnavailable.
  Status ReadAt(uint64_t offset, MutableBytes into) const;

 private:
  RandomAccessFile(std::string path, int fd, uint64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}
  std::string path_;
  int fd_;
  uint64_t size_;
};

// Makes files without a name (O_TMPFILE). An interface, so that tests can make it fail.
class UnnamedFiles {
 public:
  virtual ~UnnamedFiles() = default;
  // Returns a descriptor to write to, or -1 where the file system has no such files.
  virtual int Open(const std::string& folder) const;
  // Gives the file `fd` the name `name`. Returns false where the system does not allow that.
  virtual bool Link(int fd, const std::string& name) const;
};

// Replaces the file at `path` by `pieces`, one after another: writes them into a file without
// a name in the same folder, flushes it to the disk, gives it a temporary name and renames
// that. A symbolic link is followed.
//
// A failure leaves the old file as it was, and no temporary file. So does the end of the process at any
// moment, except between the last two steps: a process killed there (kill -9) leaves the whole new file as
// "<path>.<hex>.tmp". A process that ends itself avoids that moment by HeldFileNames. Where the system has no
// files without a name, or does not let them be named, the file has its temporary name from the start, and
// the file that is left may be a part of the new one.
Status WriteFileAtomically(const std::string& path, std::span<const Bytes> pieces,
                           const UnnamedFiles& unnamed_files = UnnamedFiles());
inline Status WriteFileAtomically(const std::string& path, std::initializer_list<Bytes> pieces) {
  return WriteFileAtomically(path, std::span(pieces.begin(), pieces.size()));
}

// While one is held, no file that WriteFileAtomically writes has its temporary name. A function that ends the
// process while other threads may write files holds one, so that none is left.
class HeldFileNames {
 public:
  // Waits at most `patience` until no file has such a name; held() is false if one still has.
  explicit HeldFileNames(Duration patience);
  ~HeldFileNames();
  HeldFileNames(const HeldFileNames&) = delete;
  HeldFileNames& operator=(const HeldFileNames&) = delete;
  bool held() const { return held_; }

 private:
  const bool held_;
};

}  // namespace sluice
