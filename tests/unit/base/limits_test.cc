// Tests base/limits.h: a process that runs out of descriptors, threads, stacks or memory gets an error that
// names the limit. Limits are lowered in forked children, so that no other test meets them.
#include "base/limits.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

template <typename F>
std::string ErrorOf(F&& run) {
  try {
    run();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kResourceExhausted);
    return e.what();
  }
  return "";
}

// In a child, whose limits nobody misses: 0 when `body` holds.
int InChild(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

rlimit Descriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

void SetDescriptors(rlim_t soft, rlim_t hard) {
  const rlimit limit{soft, hard};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST(Limits, TheSoftLimitOfDescriptorsIsRaisedAsFarAsIsNeeded) {
  EXPECT_EQ(InChild([] {
              SetDescriptors(40, 400);
              ReserveDescriptors(100, "a test");
              const rlim_t raised = Descriptors().rlim_cur;
              ReserveDescriptors(100, "a test", 10'000);
              return raised >= 100 && raised < 200 && Descriptors().rlim_cur == 400;
            }),
            0);
}

TEST(Limits, ChildrenHaveTheLimitThatWasBefore) {
  EXPECT_EQ(InChild([] {
              SetDescriptors(40, 400);
              ReserveDescriptors(100, "a test");
              return InChild([] { return Descriptors().rlim_cur == 40 && Descriptors().rlim_max == 400; }) ==
                     0;
            }),
            0);
}

TEST(Limits, TooFewDescriptorsAreSaidWithTheLimit) {
  EXPECT_EQ(InChild([] {
              SetDescriptors(40, 60);
              const std::string error =
                  ErrorOf([] { ReserveDescriptors(100, "the connections of 100 workers"); });
              EXPECT_THAT(error, AllOf(HasSubstr("the connections of 100 workers: 100 more are needed"),
                                       HasSubstr("of 60 are open"), HasSubstr("hard limit: 60"),
                                       HasSubstr("ulimit -n")));
              return !::testing::Test::HasFailure();
            }),
            0);
}

TEST(Limits, WhetherDescriptorsAreUsedUpIsKnown) {
  EXPECT_FALSE(DescriptorsAreUsedUp());
  EXPECT_EQ(InChild([] {
              SetDescriptors(20, 20);
              while (dup(0) >= 0) {
              }
              return MeansNoDescriptor(errno) && DescriptorsAreUsedUp() &&
                     DescriptorLimitText().starts_with("20 of 20 are open");
            }),
            0);
}

TEST(Limits, AForkedChildHasTheSoftLimitOfBeforeUnlessTheProgramHasSetAnother) {
  EXPECT_EQ(InChild([] {
              SetDescriptors(40, 400);
              ReserveDescriptors(100, "a test");
              if (Descriptors().rlim_cur <= 40 || InChild([] { return Descriptors().rlim_cur == 40; }) != 0)
                return false;
              SetDescriptors(300, 400);
              if (InChild([] { return Descriptors().rlim_cur == 300; }) != 0) return false;
              ReserveDescriptors(350, "a test");
              return Descriptors().rlim_cur > 300 &&
                     InChild([] { return Descriptors().rlim_cur == 300; }) == 0;
            }),
            0);
}

TEST(Limits, ThreadsThatCanBeHadAreNoError) {
  EXPECT_EQ(ErrorOf([] { ThreadReservation(3, "a test"); }), "");
  bool ran = false;
  StartThread("a test", [&ran] { ran = true; }).join();
  EXPECT_TRUE(ran);
}

// What one process has tried out is not taken by another's trial before the first has used it.
TEST(Limits, ThreadsAreTriedOutByOneProcessAtATime) {
  constexpr int kProcesses = 4, kTimes = 25;
  void* const shared =
      mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const holders = new (shared) std::atomic<int>(0);
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    bool exclusive = true;
    for (int time = 0; time < kTimes; ++time) {
      const ThreadReservation threads(2, "a test");
      exclusive = ++*holders == 1 && exclusive;
      sched_yield();
      exclusive = --*holders == 0 && exclusive;
    }
    _exit(exclusive ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  munmap(shared, sizeof(std::atomic<int>));
}

TEST(Limits, TooSmallStacksAreSaidWithTheLimit) {
  EXPECT_EQ(InChild([] {
              pthread_attr_t small;
              pthread_attr_init(&small);
              pthread_attr_setstacksize(&small, 96 << 10);
              if (pthread_setattr_default_np(&small) != 0) return false;
              EXPECT_THAT(ErrorOf([] { ThreadReservation(1, "computing on cpu(0)"); }),
                          AllOf(HasSubstr("too small stacks for computing on cpu(0)"), HasSubstr("96 KiB"),
                                HasSubstr("ulimit -s")));
              return !::testing::Test::HasFailure();
            }),
            0);
}

TEST(Limits, TheStacksOfOpenMpAreLookedAt) {
  EXPECT_EQ(InChild([] {
              const auto refused = [](const char* value) {
                setenv("OMP_STACKSIZE", value, 1);
                return ErrorOf([] { ThreadReservation(1, "computing on cpu(0)"); });
              };
              for (const char* value : {"64k", "64", " 100 K ", "65536B", "1"})
                EXPECT_THAT(refused(value), HasSubstr(StrCat("OMP_STACKSIZE is ", value))) << value;
              for (const char* value : {"256k", "1M", "1 g", "4096", "", "many", "-1"})
                EXPECT_EQ(refused(value), "") << value;
              return !::testing::Test::HasFailure();
            }),
            0);
}

// An ordinary user's threads and processes are counted together; this one has no others but one or two of
// ThreadSanitizer's.
TEST(Limits, TooFewThreadsAreSaidWithTheLimit) {
  if (geteuid() != 0) {
    const char* const labs = std::getenv("SLUICE_LABS");
    ASSERT_FALSE(labs != nullptr && std::string_view(labs) == "required")
        << "SLUICE_LABS=required, without root";
    GTEST_SKIP() << "only root may become a user without processes";
  }
  EXPECT_EQ(InChild([] {
              const rlimit limit{4, 4};
              if (setrlimit(RLIMIT_NPROC, &limit) != 0 || setuid(54'321) != 0) return false;
              EXPECT_THAT(ErrorOf([] { ThreadReservation(8, "computing on cpu(0)"); }),
                          AllOf(HasSubstr("too few threads for computing on cpu(0): 8 more are needed"),
                                ContainsRegex("gives [123];"), HasSubstr("user 54321 may run 4"),
                                HasSubstr("ulimit -u")));
              return !::testing::Test::HasFailure();
            }),
            0);
}

TEST(Limits, StacksThatCannotBeMappedAreSaidWithTheLimit) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "its own maps are beyond any limit";
#endif
  EXPECT_EQ(InChild([] {
              const rlimit limit{rlim_t{8} << 30, rlim_t{8} << 30};
              if (setrlimit(RLIMIT_AS, &limit) != 0) return false;
              EXPECT_THAT(ThreadLimitText(),
                          HasSubstr("may map 8 GiB, the stacks of its threads among them"));
              return !::testing::Test::HasFailure();
            }),
            0);
}

TEST(Limits, TooLittleMemoryIsSaidWithTheLimit) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "its own maps are beyond any limit";
#endif
  EXPECT_EQ(ErrorOf([] { ReserveMemory(64 << 20, "a test"); }), "");
  EXPECT_THAT(ErrorOf([] { ReserveMemory(uint64_t{1} << 48, "a test"); }),
              HasSubstr("too little memory for a test: 256 TiB more are needed; "));
}

// A root folder with what the kernel shows of control groups.
class GroupLimits : public ::testing::Test {
 protected:
  GroupLimits() : root_(fs::path(::testing::TempDir()) / ("limits_test." + std::to_string(getpid()))) {
    fs::remove_all(root_);
  }
  ~GroupLimits() override { fs::remove_all(root_); }
  void Write(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  const fs::path root_;
};

TEST_F(GroupLimits, OfV2AreNamedWithWhatIsInUse) {
  Write("proc/self/cgroup", "0::/kubepods/pod1\n");
  Write("proc/self/mountinfo", "31 22 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  Write("sys/fs/cgroup/kubepods/pod1/pids.max", "5\n");
  Write("sys/fs/cgroup/kubepods/pod1/pids.current", "4\n");
  Write("sys/fs/cgroup/kubepods/pids.max", "max\n");
  Write("sys/fs/cgroup/kubepods/pod1/memory.max", "536870912\n");
  Write("sys/fs/cgroup/kubepods/pod1/memory.current", "524288000\n");
  EXPECT_THAT(ThreadLimitText(root_), AllOf(HasSubstr("kubepods/pod1' allows 5 (pids.max) and has 4"),
                                            Not(HasSubstr("kubepods' allows"))));
  EXPECT_THAT(MemoryLimitText(root_),
              HasSubstr("kubepods/pod1' allows 512 MiB (memory.max) and has 500 MiB"));
}

TEST_F(GroupLimits, OfV1AreNamedWithWhatIsInUse) {
  Write("proc/self/cgroup", "8:pids:/job\n4:memory:/job\n");
  Write("proc/self/mountinfo",
        "31 22 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
        "32 22 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  Write("sys/fs/cgroup/pids/job/pids.max", "7\n");
  Write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  EXPECT_THAT(ThreadLimitText(root_), HasSubstr("pids/job' allows 7 (pids.max)"));
  EXPECT_THAT(MemoryLimitText(root_), AllOf(HasSubstr("memory/job' allows 1 GiB (memory.limit_in_bytes)"),
                                            Not(HasSubstr("memory' allows"))));
}

TEST_F(GroupLimits, WhereNoneIsSetTheSystemsOwnAreNamed) {
  EXPECT_THAT(ThreadLimitText(root_), HasSubstr("ulimit -u"));
  EXPECT_THAT(WithLimits(std::bad_alloc()), HasSubstr("no memory: "));
  EXPECT_EQ(WithLimits(std::runtime_error("other")), "other");
}

}  // namespace
}  // namespace sluice
