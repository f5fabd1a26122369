// Command lines: notations that are accepted, and errors that name the argument and what was meant.
#include "sluice/flags.h"

#include <gflags/gflags.h>
#include <gtest/gtest.h>

DEFINE_int32(num_epochs, 10, "How often to go through the training data.");
DEFINE_double(lr, 0.05, "Learning rate.");
DEFINE_bool(shuffle, true, "Whether to shuffle.");
DEFINE_string(data_dir, "", "Folder of the data set.");

namespace sluice::runtime {
namespace {

class Flags : public testing::Test {
 protected:
  gflags::FlagSaver saver_;  // puts every flag back

  static std::string Parse(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "program");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    try {
      ParseFlags(static_cast<int>(argv.size()), argv.data(), "A program.");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
      return e.what();
    }
    return "";
  }
};

TEST_F(Flags, DashesAndUnderscoresAreAlike) {
  EXPECT_EQ(Parse({"--num-epochs", "3", "--data_dir=x y"}), "");
  EXPECT_EQ(FLAGS_num_epochs, 3);
  EXPECT_EQ(FLAGS_data_dir, "x y");
  EXPECT_EQ(Parse({"--num_epochs=4"}), "");
  EXPECT_EQ(FLAGS_num_epochs, 4);
}

TEST_F(Flags, NoArgumentsAreNone) {
  ParseFlags(2, nullptr, "A program.");
  ParseFlags(0, nullptr, "A program.");
  EXPECT_EQ(Parse({}), "");
}

TEST_F(Flags, AnArgumentThatIsANullPointerIsNamed) {
  std::string program = "program", flag = "--num-epochs";
  for (const std::vector<char*>& argv : {std::vector<char*>{program.data(), nullptr},
                                         std::vector<char*>{program.data(), flag.data(), nullptr}}) {
    try {
      ParseFlags(static_cast<int>(argv.size()), const_cast<char**>(argv.data()), "A program.");
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find("is a null pointer"), std::string::npos) << error.what();
    }
  }
}

TEST_F(Flags, BooleansTakeEqualsOrNo) {
  EXPECT_EQ(Parse({"--shuffle=false"}), "");
  EXPECT_FALSE(FLAGS_shuffle);
  EXPECT_EQ(Parse({"--shuffle"}), "");
  EXPECT_TRUE(FLAGS_shuffle);
  EXPECT_EQ(Parse({"--no-shuffle"}), "");
  EXPECT_FALSE(FLAGS_shuffle);
}

TEST_F(Flags, TheValueAfterABooleanIsAStrayArgument) {
  EXPECT_NE(Parse({"--shuffle", "false"}).find("stray argument 'false'"), std::string::npos);
}

TEST_F(Flags, NonFiniteNumbersAreRefused) {
  for (const char* bad : {"nan", "inf", "-inf", "1e999", "0.1x", ""}) {
    EXPECT_NE(Parse({std::string("--lr=") + bad}).find("--lr"), std::string::npos) << bad;
  }
  EXPECT_EQ(Parse({"--lr=1e-3"}), "");
  EXPECT_DOUBLE_EQ(FLAGS_lr, 1e-3);
  EXPECT_NE(Parse({"--num-epochs=99999999999"}), "");
}

TEST_F(Flags, UnknownFlagsNameTheNearest) {
  EXPECT_NE(Parse({"--num-epoch=3"}).find("--num-epochs"), std::string::npos);
  EXPECT_NE(Parse({"--l=3"}).find("unknown flag '--l=3';"), std::string::npos) << "as near to any short one";
  EXPECT_NE(Parse({"--lt=3"}).find("unknown flag '--lt=3';"), std::string::npos);
  EXPECT_NE(Parse({"--quux=3"}).find("unknown flag '--quux=3'"), std::string::npos);
  EXPECT_NE(Parse({"train"}).find("stray argument 'train'"), std::string::npos);
  EXPECT_NE(Parse({"--"}), "");
  EXPECT_NE(Parse({"--lr"}).find("needs a value"), std::string::npos);
}

TEST_F(Flags, HelpListsTheProgramsFlagsWithinEightyColumns) {
  const std::string help = FlagsHelp("program", "A program.");
  EXPECT_NE(help.find("--num-epochs (int32, default 10)"), std::string::npos) << help;
  EXPECT_NE(help.find("--lr (double, default 0.05)\n      Learning rate.\n"), std::string::npos) << help;
  EXPECT_EQ(help.find("alsologtoemail"), std::string::npos);
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

}  // namespace
}  // namespace sluice::runtime
