#include "base/env.h"

#include <gtest/gtest.h>

#include <functional>

#include "sluice/error.h"

namespace sluice {
namespace {

std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Env, ReadsWhatIsSetAndFallsBackOtherwise) {
  const Env env({{"A", "5"}, {"EMPTY", ""}, {"B", "true"}, {"T", "0.5"}});
  EXPECT_EQ(env.GetInt("A", 1, 0, 10), 5);
  EXPECT_EQ(env.GetInt("EMPTY", 1, 0, 10), 1);
  EXPECT_EQ(env.GetInt("MISSING", 2, 0, 10), 2);
  EXPECT_TRUE(env.GetBool("B", false));
  EXPECT_DOUBLE_EQ(env.GetDouble("T", 1, 0, 1), 0.5);
  EXPECT_EQ(env.Get("MISSING"), std::nullopt);
}

TEST(Env, ErrorsNameVariableValueAndRange) {
  const Env env({{"DMLC_NUM_WORKER", "two"}, {"BIG", "11"}, {"NAN", "nan"}, {"FLAG", "maybe"}});
  const std::string message = MessageOf([&] { env.GetInt("DMLC_NUM_WORKER", 1, 1, 100); });
  EXPECT_NE(message.find("DMLC_NUM_WORKER is 'two'"), std::string::npos) << message;
  EXPECT_NE(message.find("1 to 100"), std::string::npos) << message;
  EXPECT_NE(MessageOf([&] { env.GetInt("BIG", 1, 0, 10); }), "");
  EXPECT_NE(MessageOf([&] { env.GetDouble("NAN", 1, 0, 10); }), "");
  EXPECT_NE(MessageOf([&] { env.GetBool("FLAG", true); }), "");
  EXPECT_NE(MessageOf([&] { env.Require("MISSING", "launch.py sets it"); }).find("launch.py"),
            std::string::npos);
}

TEST(Env, SeesTheProcessEnvironment) {
  ASSERT_EQ(setenv("SLUICE_ENV_TEST", "a=b", 1), 0);
  EXPECT_EQ(Env::FromProcess().Get("SLUICE_ENV_TEST"), "a=b");
}

}  // namespace
}  // namespace sluice
