// Reads and writes whole files. A file is replaced by way of a temporary one (WriteFileAtomically), which has
// no name until it is complete where the system allows that. Naming() is the one state of the process: true
// while a file has a temporary name, or while a HeldFileNames keeps files from getting one. Data loaders,
// checkpoints and tests call this on any thread; runtime/runtime.cc holds the names when it ends the process.
#include "base/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/file_descriptor.h"
#include "base/guarded.h"
#include "base/limits.h"
#include "base/strings.h"

namespace sluice {
namespace {

constexpr size_t kLargestCall = size_t{1} << 30;  // Linux moves at most 2^31 - 4096 bytes per read or write

Failure FailFromErrno(const char* action, const std::string& path, int error) {
  const char* advice = "";
  ErrorCode code = ErrorCode::kUnavailable;
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      code = ErrorCode::kNotFound;
      advice = "; check the path";
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      code = ErrorCode::kPermissionDenied;
      advice = "; check its permissions";
      break;
    case EFBIG:
      code = ErrorCode::kResourceExhausted;
      advice = "; the limit of file sizes (ulimit -f) or the file system allows none as large";
      break;
    case ENOSPC:
    case EDQUOT:
      code = ErrorCode::kResourceExhausted;
      advice = "; make room or choose another folder";
      break;
    case EMFILE:
    case ENFILE:
      return Fail(ErrorCode::kResourceExhausted, "cannot ", action, " '", path, "': ", DescriptorLimitText());
    default:
      break;
  }
  return Fail(code, "cannot ", action, " '", path, "': ", std::strerror(error), advice);
}

// While one lives, a write beyond the limit of file sizes (ulimit -f) fails with EFBIG on this thread;
// SIGXFSZ, which would end the process, is blocked and then discarded.
class NoFileSizeSignal {
 public:
  NoFileSizeSignal() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~NoFileSizeSignal() {
    const timespec now{};
    if (sigismember(&before_, SIGXFSZ) == 1) return;
    while (sigtimedwait(&signal_, nullptr, &now) == SIGXFSZ) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoFileSizeSignal(const NoFileSizeSignal&) = delete;
  NoFileSizeSignal& operator=(const NoFileSizeSignal&) = delete;

 private:
  sigset_t signal_, before_;
};

Status WriteAll(int fd, Bytes from, const std::string& path) {
  const NoFileSizeSignal no_signal;
  while (!from.empty()) {
    const ssize_t put = ::write(fd, from.data(), std::min(from.size(), kLargestCall));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return FailFromErrno("write", path, errno);
    from = from.subspan(static_cast<size_t>(put));
  }
  return Status::Ok();
}

Result<std::string> TemporaryName(const std::string& path) {
  uint64_t random = 0;
  if (::getrandom(&random, sizeof(random), 0) != static_cast<ssize_t>(sizeof(random))) {
    return FailFromErrno("name a temporary file beside", path, errno);
  }
  char suffix[32];
  std::snprintf(suffix, sizeof(suffix), ".%016llx.tmp", static_cast<unsigned long long>(random));
  return path + suffix;
}

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

Status WriteAndFlush(int fd, std::span<const Bytes> pieces, const std::string& path) {
  for (const Bytes piece : pieces) {
    if (Status status = WriteAll(fd, piece, path); !status) return status;
  }
  if (::fsync(fd) != 0) return FailFromErrno("flush", path, errno);
  return Status::Ok();
}

// True while a file has a temporary name. One for the whole process, since it
// guards against the process's end.
Guarded<bool>& Naming() {
  static Guarded<bool> naming(false);
  return naming;
}

constexpr Duration kNamingPatience = 1min;  // a writer waits so long for another one, and then goes on

// Writes a file called `name`; after a failure, whose message names `target`, a part of it may be left. Makes
// `naming` before the file gets the name. A file without a name vanishes with its process, so the name is
// given when the file is whole. Not every file system has such files, and some that have them do not let them
// be named: a container without /proc, or one whose rules forbid linkat, refuses. Then the file is written
// again with its name from the start, and the caller gets the failure of that one.
Status WriteNew(const std::string& name, std::span<const Bytes> pieces, const UnnamedFiles& unnamed_files,
                const std::string& target, std::optional<HeldFileNames>* naming) {
  {
    const FileDescriptor unnamed(unnamed_files.Open(FolderOf(name)));
    if (unnamed.valid()) {
      if (Status status = WriteAndFlush(unnamed.get(), pieces, target); !status) return status;
      naming->emplace(kNamingPatience);
      if (unnamed_files.Link(unnamed.get(), name)) return Status::Ok();
    }
  }
  if (!*naming) naming->emplace(kNamingPatience);
  const FileDescriptor file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.valid()) return FailFromErrno("write", target, errno);
  return WriteAndFlush(file.get(), pieces, target);
}

// Flushes the folder, so that the rename survives a power cut. Some file systems cannot
// flush a folder; that is no failure.
void FlushFolderOf(const std::string& path) {
  const FileDescriptor opened(::open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.valid()) ::fsync(opened.get());
}

}  // namespace

Status ValidatePath(const std::string& path) {
  if (path.empty()) return Fail(ErrorCode::kInvalidArgument, "the path of the file is empty; name a file");
  const size_t at = path.find('\0');
  if (at == std::string::npos) return Status::Ok();
  return Fail(ErrorCode::kInvalidArgument, "the path '", StrPrintable(path), "' has a NUL byte at place ", at,
              "; no file is called so");
}

Status ValidateFileName(const std::string& path, const std::string& what) {
  if (path.empty()) return Fail(ErrorCode::kInvalidArgument, what, ": the path is empty");
  const Status status = ValidatePath(path);
  return status ? status : Fail(status.failure().code, what, ": ", status.failure().message);
}

Result<RandomAccessFile> RandomAccessFile::Open(const std::string& path) {
  if (Status status = ValidatePath(path); !status) return status.failure();
  // Without O_NONBLOCK the open of a pipe that has no writer would block for ever.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return FailFromErrno("open", path, errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return FailFromErrno("inspect", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return Fail(ErrorCode::kInvalidArgument, "'", path, "' is not a regular file; name a file");
  }
  return RandomAccessFile(path, file.Release(), static_cast<uint64_t>(info.st_size));
}

RandomAccessFile::~RandomAccessFile() {
  if (fd_ >= 0) ::close(fd_);
}

RandomAccessFile::RandomAccessFile(RandomAccessFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

Status RandomAccessFile::ReadAt(uint64_t offset, MutableBytes into) const {
  SLUICE_CHECK(offset <= size_ && into.size() <= size_ - offset) << offset;
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = ::pread(fd_, into.data() + done, std::min(into.size() - done, kLargestCall),
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FailFromErrno("read", path_, errno);
    if (got == 0) {
      struct stat now {};
      if (::fstat(fd_, &now) != 0) return FailFromErrno("inspect", path_, errno);
      return Fail(ErrorCode::kDataLoss, "'", path_, "' has ", now.st_size, " bytes and had ", size_,
                  " when it was opened; something changes it while it is read");
    }
    done += static_cast<size_t>(got);
  }
  return Status::Ok();
}

Result<Buffer> ReadFile(const std::string& path, uint64_t max_bytes) {
  const Result<RandomAccessFile> file = RandomAccessFile::Open(path);
  if (!file) return file.failure();
  const uint64_t size = file.value().size();
  if (size > max_bytes) {
    return Fail(ErrorCode::kResourceExhausted, "'", path, "' has ", HumanBytes(size), "; at most ",
                HumanBytes(max_bytes), " are accepted here");
  }
  try {
    Buffer contents(size);
    if (Status status = file.value().ReadAt(0, contents.bytes()); !status) return status.failure();
    return contents;
  } catch (const Error& e) {  // from Buffer: no memory
    return Fail(e.code(), "cannot read '", path, "': ", e.what());
  }
}

int UnnamedFiles::Open(const std::string& folder) const {
  return ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
}

bool UnnamedFiles::Link(int fd, const std::string& name) const {
  const std::string self = StrCat("/proc/self/fd/", fd);
  return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

Status WriteFileAtomically(const std::string& path, std::span<const Bytes> pieces,
                           const UnnamedFiles& unnamed_files) {
  if (Status status = ValidatePath(path); !status) return status;
  std::error_code ignored;
  std::string target = path;
  if (std::filesystem::is_symlink(path, ignored)) {
    if (auto real = std::filesystem::canonical(path, ignored); !ignored) target = real.string();
  }
  struct stat info {};
  if (::stat(target.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return Fail(ErrorCode::kInvalidArgument, "'", path, "' exists and is not a regular file; name another");
  }
  const Result<std::string> temporary = TemporaryName(target);
  if (!temporary) return temporary.failure();
  std::optional<HeldFileNames> naming;
  Status status = WriteNew(temporary.value(), pieces, unnamed_files, target, &naming);
  if (status && ::rename(temporary.value().c_str(), target.c_str()) != 0) {
    status = FailFromErrno("rename a temporary file to", target, errno);
  }
  if (!status) {
    ::unlink(temporary.value().c_str());
    return status;
  }
  naming.reset();
  FlushFolderOf(target);
  return status;
}

HeldFileNames::HeldFileNames(Duration patience)
    : held_(Naming().Await(
          patience, [](bool taken) { return !taken; },
          [](bool& taken, bool free) {
            if (free) taken = true;
            return free;
          })) {}

HeldFileNames::~HeldFileNames() {
  if (held_) Naming().Notify([](bool& taken) { taken = false; });
}

}  // namespace sluice
