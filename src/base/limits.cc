// Reads the limits of this process from getrlimit(2), /proc/self/fd and its control groups, and raises the
// one of descriptors. The only state kept is the soft limit of descriptors from before it was raised, so that
// forked children get it back. Nodes, devices and transports call this before they open sockets, start
// threads or map memory, and after a call has failed; on any thread.
#include "base/limits.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <vector>

#include "base/control_groups.h"

namespace sluice {
namespace {

rlimit DescriptorLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

uint64_t OpenDescriptors() {
  DIR* folder = opendir("/proc/self/fd");
  uint64_t count = 0;
  // Without a free descriptor the folder cannot be opened: each number is tried instead.
  if (folder == nullptr) {
    const auto end = static_cast<int>(std::min<rlim_t>(DescriptorLimit().rlim_cur, 1 << 20));
    for (int fd = 0; fd < end; ++fd) count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    return count;
  }
  while (const dirent* entry = readdir(folder)) count += entry->d_name[0] != '.' ? 1 : 0;
  closedir(folder);
  return count - 1;  // without the folder itself
}

std::string Bound(rlim_t limit) {
  return limit == RLIM_INFINITY ? "no limit" : std::to_string(limit);
}

// The soft limit before it was raised, and what it was raised to. A forked child gets the former
// back, for the program that it executes: select(2) cannot watch descriptors of 1024 and above, and
// programs that use it rely on the limit.
std::atomic<rlim_t> soft_limit_before = 0, raised_to = 0;

// Does nothing when the program has set another limit since. Runs in the child of a fork.
void RestoreInChild() {
  rlimit limit = DescriptorLimit();
  if (limit.rlim_cur != raised_to.load()) return;
  limit.rlim_cur = std::min(limit.rlim_max, soft_limit_before.load());
  setrlimit(RLIMIT_NOFILE, &limit);
}

void RaiseDescriptorLimit(rlimit limit, rlim_t to) {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, RestoreInChild); });
  if (limit.rlim_cur != raised_to) soft_limit_before = limit.rlim_cur;  // the program set this one itself
  limit.rlim_cur = raised_to = to;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::string HowToRaiseDescriptors() {
  return "ulimit -n, LimitNOFILE= of systemd or --ulimit nofile=N of a container raises the limit";
}

// Appends, for each group that has a limit, "the control group '/sys/fs/cgroup/x'
// allows 5 (pids.max) and has 5".
void AddGroups(std::string_view controller, const std::filesystem::path& root, std::string_view v2_limit,
               std::string_view v2_use, std::string_view v1_limit, std::string_view v1_use, bool bytes,
               std::vector<std::string>* out) {
  constexpr int64_t kNone = int64_t{1} << 60;  // where there is no limit, v1 names a larger number
  const auto amount = [bytes](int64_t n) {
    return bytes ? HumanBytes(static_cast<uint64_t>(n)) : std::to_string(n);
  };
  for (const ControlGroup& group : ControlGroups(controller, root)) {
    const auto read = [&](std::string_view name) {
      const auto text = ReadGroupFile(group, name);
      return text ? ParseInt(*text) : std::nullopt;
    };
    const std::string_view name = group.v2 ? v2_limit : v1_limit;
    const auto limit = read(name), use = read(group.v2 ? v2_use : v1_use);
    if (!limit || *limit >= kNone) continue;
    out->push_back(StrCat("the control group '", group.folder.string(), "' allows ", amount(*limit), " (",
                          name, ")", use ? StrCat(" and has ", amount(*use)) : ""));
  }
}

constexpr uint64_t kLeastStack = uint64_t{256} << 10;

[[noreturn]] void ThrowSmallStacks(const std::string& what_for, uint64_t bytes, const std::string& advice) {
  throw Error(ErrorCode::kResourceExhausted,
              StrCat("too small stacks for ", what_for, ": threads have ", HumanBytes(bytes), " each, ",
                     HumanBytes(kLeastStack), " are needed; ", advice));
}

// Reads "64k": a number and a unit, B, K, M or G; K where none is given (OpenMP 5.0, 6.4). Returns
// nullopt for text that OpenMP ignores.
std::optional<uint64_t> ParseStackSize(std::string_view text) {
  text = StrTrim(text);
  int shift = 10;
  if (!text.empty()) {
    constexpr std::string_view kUnits = "bkmg";
    const size_t unit = kUnits.find(static_cast<char>(text.back() | 0x20));
    if (unit != std::string_view::npos) {
      shift = 10 * static_cast<int>(unit);
      text = StrTrim(text.substr(0, text.size() - 1));
    }
  }
  const auto number = ParseInt(text);
  if (!number || *number <= 0 || *number >= int64_t{1} << 32) return std::nullopt;
  return static_cast<uint64_t>(*number) << shift;
}

}  // namespace

void ReserveDescriptors(uint64_t needed, const std::string& what_for, uint64_t preferred) {
  const uint64_t open = OpenDescriptors();
  rlimit limit = DescriptorLimit();
  const rlim_t goal = std::min<rlim_t>(limit.rlim_max, open + std::max(needed, preferred));
  if (goal > limit.rlim_cur) {
    RaiseDescriptorLimit(limit, goal);
    limit = DescriptorLimit();
  }
  if (open + needed <= limit.rlim_cur) return;
  throw Error(ErrorCode::kResourceExhausted, StrCat("too few descriptors for ", what_for, ": ", needed,
                                                    " more are needed, but ", DescriptorLimitText()));
}

bool MeansNoDescriptor(int error) {
  return error == EMFILE || error == ENFILE;
}

bool DescriptorsAreUsedUp() {
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) close(fd);
  return fd < 0 && MeansNoDescriptor(errno);
}

std::string DescriptorLimitText() {
  const rlimit limit = DescriptorLimit();
  return StrCat(OpenDescriptors(), " of ", Bound(limit.rlim_cur),
                " are open (RLIMIT_NOFILE; its hard limit: ", Bound(limit.rlim_max), "); ",
                HowToRaiseDescriptors());
}

// glibc gives each thread a stack as large as `ulimit -s` was when the program began; libgomp
// reads a variable. Sluice's functions and the libraries' use some 100 KiB of it; a write
// below the stack's end is SIGSEGV.
void RequireStacks(const std::string& what_for) {
  pthread_attr_t attributes;
  size_t bytes = kLeastStack;
  if (pthread_getattr_default_np(&attributes) == 0) {
    pthread_attr_getstacksize(&attributes, &bytes);
    pthread_attr_destroy(&attributes);
  }
  if (bytes < kLeastStack) ThrowSmallStacks(what_for, bytes, "ulimit -s raises the limit (RLIMIT_STACK)");
  for (const char* name : {"OMP_STACKSIZE", "GOMP_STACKSIZE"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr) continue;
    if (const auto of_openmp = ParseStackSize(value); of_openmp && *of_openmp < kLeastStack)
      ThrowSmallStacks(what_for, *of_openmp, StrCat(name, " is ", value, ": set more, or unset it"));
    break;  // libgomp reads the first one that is set
  }
}

std::string ThreadLimitText(const std::filesystem::path& root) {
  std::vector<std::string> limits;
  AddGroups("pids", root, "pids.max", "pids.current", "pids.max", "pids.current", false, &limits);
  rlimit limit{};
  if (getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && geteuid() != 0)
    limits.push_back(
        StrCat("user ", geteuid(), " may run ", limit.rlim_cur, " threads and processes (ulimit -u)"));
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    limits.push_back(StrCat("this process may map ", HumanBytes(limit.rlim_cur),
                            ", the stacks of its threads among them (ulimit -v)"));
  if (limits.empty()) limits.emplace_back("see /proc/sys/kernel/threads-max and ulimit -u");
  return StrJoin(limits) +
         "; --pids-limit of docker, podPidsLimit of Kubernetes, TasksMax= of systemd or ulimit -u raises the "
         "limit, "
         "and fewer threads do with less (SLUICE_CPU_THREADS)";
}

void ReserveMemory(uint64_t bytes, const std::string& what_for) {
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    throw Error(ErrorCode::kResourceExhausted,
                StrCat("too little memory for ", what_for, ": ", HumanBytes(bytes), " more are needed; ",
                       MemoryLimitText()));
  }
  munmap(mapped, bytes);
}

std::string MemoryLimitText(const std::filesystem::path& root) {
  std::vector<std::string> limits;
  AddGroups("memory", root, "memory.max", "memory.current", "memory.limit_in_bytes", "memory.usage_in_bytes",
            true, &limits);
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    limits.push_back(StrCat("this process may map ", HumanBytes(limit.rlim_cur), " (ulimit -v)"));
  return limits.empty() ? "the machine has no more of it" : StrJoin(limits);
}

std::string WithLimits(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again)
    return StrCat("no thread: ", ThreadLimitText());
  if (dynamic_cast<const std::bad_alloc*>(&error) == nullptr) return error.what();
  return StrCat("no memory: ", MemoryLimitText());
}

}  // namespace sluice
