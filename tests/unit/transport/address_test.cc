// Tests transport/address.h: which addresses are valid, and which one a node takes from DMLC_INTERFACE, its
// host name or its route.
#include "transport/address.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/strings.h"

namespace sluice::transport {
namespace {

TEST(ValidateAddress, TakesTcpAndIpcOnly) {
  for (const char* good : {"tcp://127.0.0.1:0", "tcp://host.example:65535", "tcp://[::1]:9000",
                           "tcp://[fe80::1%eth0]:1", "ipc:///tmp/a", "ipc://@abstract"}) {
    EXPECT_TRUE(ValidateAddress(good).ok()) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string("tcp://"), std::string("tcp://host"), std::string("tcp://:1"),
        std::string("tcp://host:"), std::string("tcp://host:65536"), std::string("tcp://host:99999"),
        std::string("tcp://host:-1"), std::string("tcp://host:1x"), std::string("tcp://::1:1"),
        std::string("ipc://"), std::string("ipc://") + std::string(108, 'x'), std::string("udp://host:1"),
        std::string("host:1")}) {
    const Status status = ValidateAddress(bad);
    ASSERT_FALSE(status.ok()) << bad;
    EXPECT_NE(status.failure().message.find("'" + bad + "'"), std::string::npos) << status.failure().message;
  }
}

TEST(TcpAddress, BracketsIpv6) {
  EXPECT_EQ(TcpAddress("10.0.0.1", 9000), "tcp://10.0.0.1:9000");
  EXPECT_EQ(TcpAddress("::1", 1), "tcp://[::1]:1");
  EXPECT_EQ(TcpAddress("[::1]", 1), "tcp://[::1]:1");
  EXPECT_EQ(TcpAddress("host", 65535), "tcp://host:65535");
}

const std::vector<InterfaceAddress> kLocal = {
    {"lo", "127.0.0.1"},    {"eth1", "fe80::5%eth1"}, {"eth1", "10.1.0.5"}, {"eth1", "fd00::5"},
    {"eth10", "10.10.0.5"}, {"ib0", "fe80::7%ib0"},   {"ib0", "fd01::7"}};

std::string Chosen(const std::string& wanted, bool prefer_ipv6 = false) {
  const auto choice = ChooseOnInterface(wanted, kLocal, prefer_ipv6);
  return choice.ok() ? choice.value().host : choice.failure().message;
}

TEST(ChooseOnInterface, TheExactNameBeatsThePrefix) {
  EXPECT_EQ(Chosen("eth1"), "10.1.0.5");
  EXPECT_EQ(Chosen("eth10"), "10.10.0.5");
  EXPECT_EQ(Chosen("eth"), "10.1.0.5");
  EXPECT_EQ(Chosen("i"), "fd01::7");
}

TEST(ChooseOnInterface, TheFamilyFollowsTheSchedulerAndLinkLocalComesLast) {
  EXPECT_EQ(Chosen("eth1", true), "fd00::5");
  EXPECT_EQ(Chosen("ib0", false), "fd01::7");
  EXPECT_EQ(Chosen("lo", true), "127.0.0.1");
}

TEST(ChooseOnInterface, ALinkLocalAddressAloneIsWarnedOf) {
  const std::vector<InterfaceAddress> local = {{"eth1", "fe80::5%eth1"}, {"eth2", "169.254.7.8"},
                                               {"eth3", "169.254.7.9"},  {"eth3", "10.1.0.5"},
                                               {"eth4", "febf::1%eth4"}, {"eth5", "fec0::1"}};
  const auto chosen = [&](const std::string& wanted) {
    return ChooseOnInterface(wanted, local, false).value();
  };
  for (const char* wanted : {"eth1", "eth2", "eth4"}) {
    const HostChoice choice = chosen(wanted);
    EXPECT_EQ(choice.warning.find(StrCat("DMLC_INTERFACE: ", wanted, " leads to ", choice.host)), 0u)
        << choice.warning;
    EXPECT_NE(choice.warning.find("link-local"), std::string::npos) << choice.warning;
  }
  EXPECT_EQ(chosen("eth3"), (HostChoice{"10.1.0.5", "DMLC_INTERFACE: eth3", ""}));
  EXPECT_EQ(chosen("eth5").warning, "");
  EXPECT_EQ(ChooseHost({"169.254.1.1", "", ""}).value().warning.find("DMLC_NODE_HOST leads to"), 0u);
  EXPECT_EQ(ChooseHost({"127.0.0.9", "", ""}).value().warning, "");
}

TEST(ChooseOnInterface, AWrongNameListsThoseThatExist) {
  EXPECT_NE(Chosen("wlan0").find("DMLC_INTERFACE is 'wlan0'"), std::string::npos) << Chosen("wlan0");
  EXPECT_NE(Chosen("wlan0").find("eth1, eth10, ib0, lo"), std::string::npos) << Chosen("wlan0");
}

TEST(ChooseHost, AnExplicitHostBeatsTheInterfaceWhichBeatsTheRoute) {
  EXPECT_EQ(ChooseHost({"127.0.0.9", "nonsense", "127.0.0.1"}).value().host, "127.0.0.9");
  EXPECT_EQ(ChooseHost({"[::1]", "", ""}).value().host, "::1");
  EXPECT_FALSE(ChooseHost({"", "no-such-interface", "127.0.0.1"}).ok());
  const HostChoice by_route = ChooseHost({"", "", "127.0.0.1"}).value();
  EXPECT_EQ(by_route.host, "127.0.0.1");
  EXPECT_EQ(by_route.why, "route to the scheduler");
}

TEST(ChooseHost, NamesBecomeNumbersOrAreNamed) {
  for (const std::string& host :
       {ChooseHost({"localhost", "", ""}).value().host, ResolveScheduler("localhost").value()})
    EXPECT_TRUE(host == "127.0.0.1" || host == "::1") << host;
  for (const Failure& failure :
       {ChooseHost({"nobody.invalid", "", ""}).failure(), ChooseHost({"", "", "nobody.invalid"}).failure(),
        ResolveScheduler("nobody.invalid").failure()}) {
    EXPECT_EQ(failure.code, ErrorCode::kInvalidArgument);
    EXPECT_NE(failure.message.find("host 'nobody.invalid' (DMLC_"), std::string::npos) << failure.message;
  }
}

TEST(ChooseHost, FollowsAnIpv6Scheduler) {
  for (const char* scheduler : {"::1", "[::1]"}) {
    const auto choice = ChooseHost({"", "", scheduler});
    if (!choice.ok()) GTEST_SKIP() << "no IPv6 here: " << choice.failure().message;
    EXPECT_EQ(choice.value().host, "::1");
  }
}

TEST(ChooseHost, ASchedulerThatCannotBeResolvedIsNamed) {
  const auto choice = ChooseHost({"", "", "no such host"});
  ASSERT_FALSE(choice.ok());
  EXPECT_NE(choice.failure().message.find("'no such host' (DMLC_PS_ROOT_URI)"), std::string::npos)
      << choice.failure().message;
}

// As root, in a child without rights.
TEST(IsOwnAddress, AnOrdinaryUsersAddressesAreItsOwnToo) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && seteuid(kNobody) != 0) _exit(2);
    _exit(IsOwnAddress("127.0.0.1") && !IsOwnAddress("198.51.100.1") ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(LocalAddresses, HaveTheLoopback) {
  const auto local = LocalAddresses();
  EXPECT_TRUE(
      std::any_of(local.begin(), local.end(), [](const auto& a) { return a.address == "127.0.0.1"; }));
}

}  // namespace

TEST(IsOwnAddress, TellsThoseOfThisMachine) {
  EXPECT_TRUE(IsOwnAddress("127.0.0.1"));
  EXPECT_TRUE(IsOwnAddress("127.9.9.9"));
  EXPECT_FALSE(IsOwnAddress("192.0.2.1"));  // for documentation: RFC 5737
  EXPECT_FALSE(IsOwnAddress("no such host"));
}

}  // namespace sluice::transport
