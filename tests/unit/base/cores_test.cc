// Tests base/cores.h: how many cores this process may use, by its affinity and by quotas of control groups
// (v1 and v2). Each test builds the files of a control group in a folder of its own; none reads the
// machine's.
#include "base/cores.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/control_groups.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// A root folder with what the kernel shows of control groups.
class Quota : public testing::Test {
 protected:
  Quota() : root_(fs::path(testing::TempDir()) / ("cores_test." + std::to_string(getpid()))) {
    fs::remove_all(root_);
  }
  ~Quota() override { fs::remove_all(root_); }

  void Write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  // The process's groups, and its mounts without what comes before the root in each line.
  void Groups(const std::string& text) { Write("proc/self/cgroup", text); }
  void Mounts(const std::vector<std::string>& mounts) {
    std::string text = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw\nnot a mount\n";
    for (const std::string& mount : mounts) text += "31 22 0:27 " + mount + "\n";
    Write("proc/self/mountinfo", text);
  }
  void MountV2(const std::string& top = "/") {
    Mounts({top + " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate"});
  }
  void MountV1(const std::string& top = "/") {
    Mounts({"/ /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755",
            top + " /sys/fs/cgroup/cpu,cpuacct rw shared:10 master:3 - cgroup cgroup rw,cpu,cpuacct",
            top + " /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset"});
  }
  void WriteV1(const std::string& group, const std::string& quota, const std::string& period) {
    Write("sys/fs/cgroup/cpu,cpuacct" + group + "/cpu.cfs_quota_us", quota + "\n");
    Write("sys/fs/cgroup/cpu,cpuacct" + group + "/cpu.cfs_period_us", period + "\n");
  }
  std::optional<double> Read() const { return CpuQuota(root_); }

  const fs::path root_;
};

TEST_F(Quota, ThereIsNoneWhereTheKernelShowsNone) {
  EXPECT_EQ(Read(), std::nullopt);
  Groups("0::/job\n");
  EXPECT_EQ(Read(), std::nullopt);
  MountV2();
  EXPECT_EQ(Read(), std::nullopt);
}

TEST_F(Quota, OfV2IsQuotaByPeriod) {
  Groups("0::/job\n");
  MountV2();
  Write("sys/fs/cgroup/job/cpu.max", "150000 100000\n");
  EXPECT_EQ(Read(), 1.5);
  Write("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  EXPECT_EQ(Read(), std::nullopt);
}

TEST_F(Quota, TheSmallestOfTheGroupAndItsParentsCounts) {
  Groups("0::/user.slice/job.scope/worker\n");
  MountV2();
  Write("sys/fs/cgroup/user.slice/job.scope/worker/cpu.max", "max 100000\n");
  Write("sys/fs/cgroup/user.slice/job.scope/cpu.max", "400000 100000\n");
  Write("sys/fs/cgroup/user.slice/cpu.max", "50000 20000\n");
  EXPECT_EQ(Read(), 2.5);
  Write("sys/fs/cgroup/user.slice/job.scope/worker/cpu.max", "100000 100000\n");
  EXPECT_EQ(Read(), 1);
  Write("sys/fs/cgroup/other/cpu.max", "1000 100000\n");
  EXPECT_EQ(Read(), 1) << "a group that is no parent";
}

TEST_F(Quota, OfV1IsQuotaByPeriodAndMinusOneIsNone) {
  Groups("4:cpu,cpuacct:/docker/abc\n2:cpuset:/elsewhere\n");
  MountV1();
  WriteV1("/docker/abc", "-1", "100000");
  WriteV1("/docker", "300000", "100000");
  EXPECT_EQ(Read(), 3);
  WriteV1("/docker/abc", "25000", "50000");
  EXPECT_EQ(Read(), 0.5);
}

// With a namespace of its own a container's group is "/", and so is what is mounted.
TEST_F(Quota, OfAContainerWithANamespace) {
  Groups("0::/\n");
  MountV2();
  Write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(Read(), 2);
}

// Without one, the group has the host's name, and the mount shows that group alone.
TEST_F(Quota, OfAContainerThatSeesTheHostsNames) {
  Groups("4:cpu,cpuacct:/docker/abc\n");
  MountV1("/docker/abc");
  WriteV1("", "200000", "100000");
  EXPECT_EQ(Read(), 2);
  Groups("4:cpu,cpuacct:/docker/abc/inner\n");
  WriteV1("/inner", "100000", "100000");
  EXPECT_EQ(Read(), 1);
  Groups("4:cpu,cpuacct:/docker/abcde\n");  // its name is another: what is mounted counts
  WriteV1("/de", "10000", "100000");
  EXPECT_EQ(Read(), 2);
}

TEST_F(Quota, TheHostsHierarchyInAContainerIsNotTheContainers) {
  Groups("0::/\n");
  Mounts({"/ /sys/fs/cgroup ro - cgroup2 cgroup rw", "/../.. /host/cgroup ro - cgroup2 cgroup rw"});
  Write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  Write("host/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(Read(), 4);
}

TEST_F(Quota, OfBothHierarchiesTheSmallerCounts) {
  Groups("3:cpu,cpuacct:/a\n0::/b\n");
  Mounts({"/ /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
          "/ /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"});
  WriteV1("/a", "300000", "100000");
  EXPECT_EQ(Read(), 3) << "cpu is with v1: v2 has no file";
  Write("sys/fs/cgroup/unified/b/cpu.max", "200000 100000\n");
  EXPECT_EQ(Read(), 2);
}

TEST_F(Quota, AFolderMayHaveASpace) {
  Groups("0::/my job\n");
  Mounts({"/ /sys/fs/c\\040group rw - cgroup2 cgroup2 rw"});
  Write("sys/fs/c group/my job/cpu.max", "100000 100000\n");
  EXPECT_EQ(Read(), 1);
}

TEST_F(Quota, WhatIsNoQuotaDoesNotCount) {
  Groups("no line of it\n0::/job\n::\n");
  MountV2();
  for (const char* text : {"", "\n", "100000\n", "max\n", "many 100000\n", "100000 0\n", "0 100000\n",
                           "-5 100000\n", "100000 -1\n", "99999999999999999999 100000\n", "1.5 2\n"}) {
    Write("sys/fs/cgroup/job/cpu.max", text);
    EXPECT_EQ(Read(), std::nullopt) << text;
  }
  Groups("4:cpu:/a\n");
  Mounts({"/ /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"});
  Write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(Read(), std::nullopt) << "no period";
  Write("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "0\n");
  EXPECT_EQ(Read(), std::nullopt);
}

TEST_F(Quota, AGroupOutsideTheHierarchyIsWhatIsMounted) {
  Groups("0::/../../other\n");
  MountV2();
  Write("sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(Read(), 3);
}

TEST(CoreCount, IsTheQuotaRoundedUpAndNeverMoreThanTheCores) {
  EXPECT_EQ(CoreCount(8, std::nullopt), 8);
  EXPECT_EQ(CoreCount(8, 1.0), 1);
  EXPECT_EQ(CoreCount(8, 1.01), 2);
  EXPECT_EQ(CoreCount(8, 0.05), 1);
  EXPECT_EQ(CoreCount(8, 64.0), 8);
  EXPECT_EQ(CoreCount(0, std::nullopt), 1);
}

TEST(CoreCount, OfThisProcessIsNoMoreThanItsAffinity) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(CoresOfProcess().size(), static_cast<size_t>(CPU_COUNT(&set)));
  EXPECT_GE(CoreCount(), 1);
  EXPECT_LE(CoreCount(), CPU_COUNT(&set));
}

}  // namespace
}  // namespace sluice
