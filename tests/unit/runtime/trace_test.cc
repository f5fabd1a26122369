// Tests sluice/trace.h: the text of the file, and what is recorded. tests/cluster/language_test.py reads the
// files of whole programs.
#include "sluice/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "runtime/trace/trace_events.h"
#include "sluice/ndarray.h"
#include "tensor/devices.h"
#include "unit/data/temporary_folder.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Time At(int64_t nanoseconds) {
  return Time(std::chrono::nanoseconds(nanoseconds));
}

TEST(TraceTextTest, HasATrackForEachNameAndTimesInMicroseconds) {
  EXPECT_EQ(
      runtime::TraceText(
          "a \"b\"", 7, {{"cpu(1)", "x\\y", At(1'002'003), At(1'002'013)}, {"cpu(0)", "z", At(5), At(5)}}, 3),
      "{\"otherData\":{\"events left out\":\"3\"},\n\"traceEvents\":[\n"
      "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":7,\"tid\":0,\"args\":{\"name\":\"a \\\"b\\\"\"}},\n"
      "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":7,\"tid\":1,\"args\":{\"name\":\"cpu(0)\"}},\n"
      "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":7,\"tid\":1,\"args\":{\"sort_index\":1}},\n"
      "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":7,\"tid\":2,\"args\":{\"name\":\"cpu(1)\"}},\n"
      "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":7,\"tid\":2,\"args\":{\"sort_index\":2}},\n"
      "{\"ph\":\"X\",\"name\":\"x\\\\y\",\"pid\":7,\"tid\":2,\"ts\":1002.003,\"dur\":0.010},\n"
      "{\"ph\":\"X\",\"name\":\"z\",\"pid\":7,\"tid\":1,\"ts\":0.005,\"dur\":0.000}\n]}\n");
}

class TraceTest : public ::testing::Test {
 protected:
  TraceTest() { Devices::SetDefault(nullptr); }
  ~TraceTest() override { Devices::SetDefault(nullptr); }
  std::string Written(const Trace& trace) {
    trace.Write(file_);
    const Buffer contents = ReadFile(file_, 1 << 20).OrThrow();
    return std::string(AsText(contents.bytes()));
  }
  const TemporaryFolder folder_;
  const std::string file_ = folder_.path("trace.json");
};

TEST_F(TraceTest, RecordsWhatIsIssuedWhileItExists) {
  NDArray before({4});
  before += NDArray({4});
  std::string text;
  {
    const Trace trace;
    NDArray a({4}, cpu(0)), b({4}, cpu(1));
    a += a;
    b *= b;
    a.WaitToRead();
    b.WaitToRead();
    text = Written(trace);
    EXPECT_THAT(text, HasSubstr("\"name\":\"+=\""));
    EXPECT_THAT(text, HasSubstr("\"name\":\"*=\""));
    EXPECT_THAT(text, HasSubstr("\"args\":{\"name\":\"cpu(1)\"}"));
  }
  NDArray after({4});
  after -= after;
  after.WaitToRead();  // on a device that reports to a recorder of no trace
  const Trace second;
  NDArray c({4});
  c *= c;
  c.WaitToRead();
  text = Written(second);
  EXPECT_THAT(text, HasSubstr("\"name\":\"*=\""));
  EXPECT_THAT(text, Not(HasSubstr("-=")));
  EXPECT_THAT(text, Not(HasSubstr("+=")));
}

TEST_F(TraceTest, KeepsNoMoreThanItIsTold) {
  const Trace trace({.max_events = 3});
  NDArray a({4});
  for (int i = 0; i < 10; ++i) a += a;
  a.WaitToRead();
  const std::string text = Written(trace);
  EXPECT_THAT(text, Not(HasSubstr("\"events left out\":\"0\"")));
  size_t events = 0;
  for (size_t at = text.find("\"ph\":\"X\""); at != std::string::npos; at = text.find("\"ph\":\"X\"", at + 1))
    ++events;
  EXPECT_EQ(events, 3u);
}

TEST_F(TraceTest, WrongArgumentsAreRefused) {
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [] { Trace({.max_events = 0}); }),
              HasSubstr("max_events is 0"));
  const Trace trace;
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { trace.Write(""); }), HasSubstr("Trace::Write"));
  EXPECT_THROW(trace.Write(folder_.path("none/trace.json")), Error);
}

}  // namespace
}  // namespace sluice
