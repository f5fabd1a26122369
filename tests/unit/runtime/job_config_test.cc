// Tests runtime/job_config.h: what each environment variable of a job means, its default, and the error for
// each bad value.
#include "runtime/job_config.h"

#include <gtest/gtest.h>

#include "sluice/error.h"

namespace sluice::runtime {
namespace {

using Map = std::map<std::string, std::string>;

Map Worker() {
  return {{"DMLC_ROLE", "worker"},   {"DMLC_PS_ROOT_URI", "10.0.0.1"}, {"DMLC_PS_ROOT_PORT", "9000"},
          {"DMLC_NUM_WORKER", "2"},  {"DMLC_NUM_SERVER", "3"},         {"DMLC_RANK", "1"},
          {"SLUICE_JOB_SECRET", "s"}};
}

std::string ErrorOf(const Map& values) {
  try {
    JobConfig::FromEnv(Env(values), 2);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(JobConfig, WithoutARoleNothingElseIsNeeded) {
  const JobConfig config = JobConfig::FromEnv(Env(Map{}), 2);
  EXPECT_FALSE(config.role.has_value());
  EXPECT_EQ(config.heartbeat_interval, 1s);
  EXPECT_EQ(config.heartbeat_timeout, 10s);
  EXPECT_FALSE(config.bigarray_bound.has_value());  // Placement.NetworksAreBalancedByDefault
}

TEST(JobConfig, ReadsAWorkersPlace) {
  const JobConfig config = JobConfig::FromEnv(Env(Worker()), 2);
  EXPECT_EQ(config.role, wire::Role::kWorker);
  EXPECT_EQ(config.root_address(), "tcp://10.0.0.1:9000");
  EXPECT_EQ(config.num_workers, 2);
  EXPECT_EQ(config.num_servers, 3);
  EXPECT_EQ(config.requested_rank, 1);
}

TEST(JobConfig, PortsOfServersAreThoseOfTcp) {
  Map values = Worker();
  EXPECT_EQ(JobConfig::FromEnv(Env(values), 2).server_port, 0);
  values["SLUICE_SERVER_PORT"] = "9100";
  values["SLUICE_LOCAL_SERVER"] = "3";
  EXPECT_EQ(JobConfig::FromEnv(Env(values), 2).server_port, 9100);
  EXPECT_EQ(JobConfig::FromEnv(Env(values), 2).local_server, 3);
  values["SLUICE_TRANSPORT"] = "ipc";
  EXPECT_NE(ErrorOf(values).find("SLUICE_SERVER_PORT names ports of TCP"), std::string::npos)
      << ErrorOf(values);
  for (const char* bad : {"0", "65536", "x"}) {
    values["SLUICE_SERVER_PORT"] = bad;
    EXPECT_NE(ErrorOf(values).find("SLUICE_SERVER_PORT"), std::string::npos) << bad;
  }
}

TEST(JobConfig, AMissingPlaceNamesWhoSetsItAndAsItIsInstalled) {
  Map values = Worker();
  values.erase("DMLC_NUM_SERVER");
  EXPECT_NE(ErrorOf(values).find("tools/launch.py (installed: sluice_launch)"), std::string::npos)
      << ErrorOf(values);
}

TEST(JobConfig, AnOperationsTimeoutMayBeNone) {
  Map values = Worker();
  const auto timeout = [&](const std::string& text) {
    values["SLUICE_OPERATION_TIMEOUT"] = text;
    return JobConfig::FromEnv(Env(values), 2).operation_timeout;
  };
  EXPECT_EQ(timeout(""), 10min);
  EXPECT_EQ(timeout("2.5"), 2500ms);
  EXPECT_EQ(timeout("31536000"), std::chrono::hours(24 * 365));
  for (const char* none : {"inf", "0", "0.0"})
    EXPECT_EQ(timeout(none), std::chrono::milliseconds::max()) << none;
  for (const char* bad : {"0.05", "-1", "31536001", "nan", "-inf", "10 min", "1e400"}) {
    values["SLUICE_OPERATION_TIMEOUT"] = bad;
    EXPECT_EQ(ErrorOf(values),
              std::string("environment variable SLUICE_OPERATION_TIMEOUT is '") + bad +
                  "'; it must be a number of seconds from 0.1 to 31536000, or inf (0) to wait as "
                  "long as the others are alive");
  }
}

TEST(JobConfig, AWorkersThreadsAreItsShareOfTheCoresAndUnbound) {
  Map values = Worker();
  EXPECT_EQ(JobConfig::FromEnv(Env(values), 8).cpu_threads, 8);
  EXPECT_FALSE(JobConfig::FromEnv(Env(values), 8).binds_threads);
  values["SLUICE_LOCAL_WORKERS"] = "3";
  values["SLUICE_BIND_THREADS"] = "1";
  EXPECT_EQ(JobConfig::FromEnv(Env(values), 8).cpu_threads, 2);
  EXPECT_TRUE(JobConfig::FromEnv(Env(values), 8).binds_threads);
  values["SLUICE_CPU_THREADS"] = "5";
  EXPECT_EQ(JobConfig::FromEnv(Env(values), 8).cpu_threads, 5);
}

TEST(JobConfig, AServersHelpersAreWhatItsCoresLeave) {
  Map values = Worker();
  EXPECT_EQ(JobConfig::FromEnv(Env(values), 2).UpdateThreads(1), 1);
  EXPECT_EQ(JobConfig::FromEnv(Env(values), 64).UpdateThreads(8), 3);
  EXPECT_EQ(JobConfig::FromEnv(Env(values), 64).UpdateThreads(63), 1);
  for (const auto& [cores, helpers] : std::map<std::string, int>{{"1", 0}, {"3", 2}, {"6", 3}, {"4000", 3}}) {
    values["SLUICE_CPU_THREADS"] = cores;  // --server-cores
    EXPECT_EQ(JobConfig::FromEnv(Env(values), 7).UpdateThreads(1), helpers) << cores;
  }
  values["SLUICE_UPDATE_THREADS"] = "5";
  EXPECT_EQ(JobConfig::FromEnv(Env(values), 7).UpdateThreads(1), 5);
}

// A job's servers and its scheduler may run on machines of 4 and of 64 cores.
TEST(JobConfig, HowManyThreadsOwnKeysIsAnOfferUnlessSomebodySetsIt) {
  Map values = Worker();
  for (const auto& [cores, threads] : std::map<int, int>{{1, 1}, {4, 1}, {16, 4}, {64, 8}}) {
    const JobConfig config = JobConfig::FromEnv(Env(values), cores);
    EXPECT_FALSE(config.server_threads.has_value());
    EXPECT_EQ(config.default_server_threads, threads) << cores;
  }
  values["SLUICE_SERVER_THREADS"] = "3";
  EXPECT_EQ(JobConfig::FromEnv(Env(values), 64).server_threads, 3);
}

TEST(JobConfig, WhatOpenMpProgramsAreToldBoundsTheShareAlone) {
  for (const auto& [text, threads] : std::map<std::string, int>{
           {"3", 3}, {" 2 ", 2}, {"5,4,3", 5}, {"100", 8}, {"0", 8}, {"-1", 8}, {"many", 8}, {",", 8}}) {
    Map values = Worker();
    values["OMP_NUM_THREADS"] = text;
    EXPECT_EQ(JobConfig::FromEnv(Env(values), 8).cpu_threads, threads) << text;
    values["SLUICE_CPU_THREADS"] = "7";
    EXPECT_EQ(JobConfig::FromEnv(Env(values), 8).cpu_threads, 7) << text;
  }
}

TEST(JobConfig, PutsIpv6InBrackets) {
  Map values = Worker();
  values["DMLC_PS_ROOT_URI"] = "fd00::1";
  EXPECT_EQ(JobConfig::FromEnv(Env(values), 2).root_address(), "tcp://[fd00::1]:9000");
  EXPECT_EQ(JobConfig::FromEnv(Env(values), 2).scheduler_bind(), "tcp://[fd00::1]:9000");
  values["DMLC_USE_KUBERNETES"] = "1";
  EXPECT_EQ(JobConfig::FromEnv(Env(values), 2).scheduler_bind(), "tcp://[::]:9000");
  EXPECT_EQ(JobConfig::FromEnv(Env(values), 2).root_address(), "tcp://[fd00::1]:9000");
}

TEST(JobConfig, EveryVariableOfAPlaceIsRequiredByName) {
  for (const char* name : {"DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER"}) {
    Map values = Worker();
    values.erase(name);
    EXPECT_NE(ErrorOf(values).find(name), std::string::npos) << ErrorOf(values);
  }
}

TEST(JobConfig, ArithmeticIsStrictUnlessAskedOtherwise) {
  Map values = Worker();
  EXPECT_FALSE(JobConfig::FromEnv(Env(values), 8).multiplies_tfloat32);
  EXPECT_EQ(JobConfig::FromEnv(Env(values), 8).multiplies_bfloat16, std::nullopt);
  values["SLUICE_TF32_ARITHMETIC"] = "1";
  values["SLUICE_BFLOAT16_ARITHMETIC"] = "0";
  EXPECT_TRUE(JobConfig::FromEnv(Env(values), 8).multiplies_tfloat32);
  EXPECT_EQ(JobConfig::FromEnv(Env(values), 8).multiplies_bfloat16, false);
}

TEST(JobConfig, BadValuesAreNamed) {
  for (const auto& [name, value] : Map{{"DMLC_ROLE", "boss"},
                                       {"DMLC_NUM_WORKER", "0"},
                                       {"DMLC_PS_ROOT_PORT", "70000"},
                                       {"PS_VERBOSE", "9"},
                                       {"PS_DROP_MSG", "100"},
                                       {"PS_HEARTBEAT_TIMEOUT", "nan"},
                                       {"SLUICE_SERVER_THREADS", "x"},
                                       {"SLUICE_IO_THREADS", "0"},
                                       {"SLUICE_UPDATE_THREADS", "-1"},
                                       {"SLUICE_BIND_THREADS", "core 3"},
                                       {"MXNET_KVSTORE_BIGARRAY_BOUND", "-1"},
                                       {"SLUICE_TF32_ARITHMETIC", "sometimes"},
                                       {"SLUICE_GRACE", "-1"},
                                       {"PS_RESEND_TIMEOUT", "0"}}) {
    Map values = Worker();
    values[name] = value;
    const std::string error = ErrorOf(values);
    EXPECT_NE(error.find(name), std::string::npos) << error;
    EXPECT_NE(error.find("'" + value + "'"), std::string::npos) << error;
  }
}

TEST(JobConfig, OnlyTheSchedulerMayAskForAnyPort) {
  Map values = Worker();
  values["DMLC_PS_ROOT_PORT"] = "0";
  EXPECT_NE(ErrorOf(values), "");
  values["DMLC_ROLE"] = "scheduler";
  EXPECT_EQ(ErrorOf(values), "");
}

TEST(JobConfig, ATimeoutShorterThanTwoHeartbeatsIsRefused) {
  Map values = Worker();
  values["PS_HEARTBEAT_INTERVAL"] = "2";
  values["PS_HEARTBEAT_TIMEOUT"] = "3";
  EXPECT_NE(ErrorOf(values).find("PS_HEARTBEAT_TIMEOUT"), std::string::npos);
}

TEST(JobConfig, TheUnprefixedPortIsNotRead) {
  Map values = Worker();
  values["PORT"] = "1234";
  EXPECT_EQ(JobConfig::FromEnv(Env(values), 2).root_port, 9000);
}

}  // namespace
}  // namespace sluice::runtime
