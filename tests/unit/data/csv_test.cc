// Tests data/csv.h: numbers and labels of CSV files, and an error with line and column for each line that is
// not one.
#include "data/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/error.h"
#include "unit/data/temporary_folder.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const ArrayDataset> ParseText(std::string_view text, const CsvOptions& options = {}) {
  return ParseCsv(text, "table.csv", options).OrThrow();
}

std::string WhyCsvRefused(std::string_view text, const CsvOptions& options = {}) {
  const auto parsed = ParseCsv(text, "table.csv", options);
  if (parsed) return "accepted";
  EXPECT_EQ(parsed.failure().code, ErrorCode::kDataLoss) << parsed.failure().message;
  EXPECT_THAT(parsed.failure().message, HasSubstr("'table.csv'"));
  return parsed.failure().message;
}

std::vector<float> Values(const ArrayDataset& data) {
  std::vector<float> values;
  for (int64_t i = 0; i < data.size(); ++i)
    values.insert(values.end(), data.sample(i).begin(), data.sample(i).end());
  return values;
}

TEST(Csv, ReadsNumbersAndTheLabelColumn) {
  const auto data = ParseText("1,2.5,0\n-3e2,.5,2\n");
  EXPECT_EQ(data->sample_shape(), (Shape{2}));
  EXPECT_EQ(Values(*data), (std::vector<float>{1, 2.5f, -300, 0.5f}));
  EXPECT_EQ(data->labels(), (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(data->num_classes(), 3);
  const auto first = ParseText("7;1;2\n", {.label_column = 0, .delimiter = ';', .num_classes = 10});
  EXPECT_EQ(first->labels(), (std::vector<int32_t>{7}));
  EXPECT_EQ(Values(*first), (std::vector<float>{1, 2}));
  EXPECT_EQ(first->num_classes(), 10);
  EXPECT_EQ(ParseText("1,5,2\n", {.label_column = -2})->labels(), (std::vector<int32_t>{5}));
  EXPECT_EQ(ParseText("1,2,3,4,0\n", {.sample_shape = Shape{2, 2}})->sample_shape(), (Shape{2, 2}));
  EXPECT_EQ(ParseText("1\t2\t1.0\n", {.delimiter = '\t'})->labels(), (std::vector<int32_t>{1}));
  EXPECT_EQ(Values(*ParseText("1e-46,-1e-400,1e-39,0\n")), (std::vector<float>{0, 0, 1e-39f}))
      << "as float32 rounds";
  EXPECT_EQ(Values(*ParseText("3.4028235e+38,+1.5,1.00000005960464477540,0\n")),
            (std::vector<float>{3.4028235e38f, 1.5f, 0x1.000002p+0f}));
  EXPECT_EQ(Values(*ParseText("3.4028234e38,-3.4028234e38,0\n")),
            (std::vector<float>{3.4028234e38f, -3.4028234e38f}));
}

TEST(Csv, SeveralColumnsMakeALabelOfNumbers) {
  const auto data = ParseText("1,2.5,-7\n3,4,5e-1\n", {.label_columns = {-1, 0}});
  EXPECT_EQ(data->sample_shape(), (Shape{1}));
  EXPECT_EQ(data->label_shape(), (Shape{2}));
  EXPECT_EQ(Values(*data), (std::vector<float>{2.5f, 4}));
  EXPECT_EQ(data->label(0)[0], -7);
  EXPECT_EQ(data->label(0)[1], 1);
  EXPECT_EQ(data->label(1)[0], 0.5f);
  EXPECT_EQ(data->label(1)[1], 3);
  EXPECT_EQ(ParseText("1,2,3,4,0.5\n", {.label_columns = {4}, .sample_shape = Shape{2, 2}})->sample_shape(),
            (Shape{2, 2}));
}

TEST(Csv, LineEndsQuotesBlanksAndHeadersAreOfNoConsequence) {
  const std::vector<float> expected{1, 2, 3, 4};
  for (const char* text :
       {"1,2,0\n3,4,1\n", "1,2,0\n3,4,1", "1,2,0\r\n3,4,1\r\n", "1,2,0\r\n3,4,1", "1,2,0\n3,4,1\r",
        "\"1\",\"2\",\"0\"\n\"3\",4,\"1\"", "\"1\",2,\"0\"\r\n3,4,\"1\"\r\n", " 1 ,2\t, 0\n3,4,1 \n",
        "\n1,2,0\n\n \r\n3,4,1\n\n",
        "\xef\xbb\xbf"
        "1,2,0\n3,4,1\n"}) {
    EXPECT_EQ(Values(*ParseText(text)), expected) << text;
    EXPECT_EQ(ParseText(text)->labels(), (std::vector<int32_t>{0, 1})) << text;
  }
  EXPECT_EQ(Values(*ParseText("a,\"b \"\"x\"\"\ny\",c\n1,2,0\n3,4,1\n", {.has_header = true})), expected);
}

TEST(Csv, EveryLineIsChecked) {
  EXPECT_THAT(WhyCsvRefused(""), HasSubstr("no line of numbers"));
  EXPECT_THAT(WhyCsvRefused("a,b\n", {.has_header = true}), HasSubstr("no line of numbers"));
  EXPECT_THAT(WhyCsvRefused("a,b\n"), HasSubstr("line 1, column 0 is 'a'; expected a finite number"));
  EXPECT_THAT(WhyCsvRefused("1,0\n1,0\n1,2,0\n"), HasSubstr("line 3 has 3 columns; line 1 has 2"));
  EXPECT_THAT(WhyCsvRefused("1,0\n\n1\n"), HasSubstr("line 3 has 1 column; line 1 has 2"));
  EXPECT_THAT(WhyCsvRefused("1,0\r\n1x,0\r\n"), HasSubstr("line 2, column 0 is '1x'"));
  EXPECT_THAT(WhyCsvRefused("1,0x\r\n"), HasSubstr("line 1, column 1 is '0x'"));
  EXPECT_THAT(WhyCsvRefused("1,2,0\n1,,0\n"), HasSubstr("line 2, column 1 is ''"));
  EXPECT_THAT(WhyCsvRefused("nan,0\n"), HasSubstr("'nan'"));
  EXPECT_THAT(WhyCsvRefused("inf,0\n"), HasSubstr("'inf'"));
  EXPECT_THAT(WhyCsvRefused("1e39,0\n"),
              HasSubstr("'1e39'; it does not fit float32, whose largest is 3.40282e+38"));
  EXPECT_THAT(WhyCsvRefused("1,0.5\n"),
              HasSubstr("line 1, column 1, the label, is '0.5'; expected a whole number"));
  EXPECT_THAT(WhyCsvRefused("1,-1\n"), HasSubstr("is '-1'"));
  EXPECT_THAT(WhyCsvRefused("1,3\n", {.num_classes = 3}), HasSubstr("from 0 to 2"));
  EXPECT_THAT(WhyCsvRefused("-1e400,0\n"), HasSubstr("'-1e400'; it does not fit float32"));
  EXPECT_THAT(WhyCsvRefused("1,1e300\n"), HasSubstr("the label, is '1e300'; expected a whole number"));
  EXPECT_THAT(WhyCsvRefused("1,1e-400\n"), HasSubstr("the label, is '1e-400'; expected a whole number"));
  EXPECT_THAT(WhyCsvRefused(std::string_view("1,\0\x1b[1m\n", 8)), HasSubstr("column 1 is '\\x00\\x1b[1m'"));
  EXPECT_THAT(WhyCsvRefused("1;0\n"),
              HasSubstr("line 1 has 1 column; expected the label and at least one more, with"));
  EXPECT_THAT(WhyCsvRefused("\n3\n1\n"), HasSubstr("line 2 has 1 column"));
  EXPECT_THAT(WhyCsvRefused("1,99999999\n"), HasSubstr("from 0 to 16777215"));
  EXPECT_THAT(WhyCsvRefused("1,0\n\"1,0\n1,0\n"), HasSubstr("line 2, column 0: the quote is never closed"));
  EXPECT_THAT(WhyCsvRefused("\"1\"2,0\n"), HasSubstr("line 1, column 0: '2' follows a closing quote"));
  EXPECT_THAT(WhyCsvRefused("\"h\n1\",\"2\n\"\n1,x\n", {.has_header = true}),
              HasSubstr("line 4, column 1 is 'x'"))
      << "lines inside quotes count";
  EXPECT_THAT(WhyCsvRefused(std::string(1000, 'x') + ",0\n"), HasSubstr("xxx...'"));
  EXPECT_THAT(WhyCsvRefused(std::string(size_t{1} << 21, ',')), HasSubstr("more than 1048576 columns"));
}

TEST(Csv, OptionsThatDoNotFitAreRefused) {
  const auto refused = [](std::string_view text, const CsvOptions& options) {
    return ErrorOf(ErrorCode::kInvalidArgument, [&] { ParseText(text, options); });
  };
  EXPECT_THAT(refused("1,0\n", {.label_column = 2}),
              HasSubstr("label_column is 2, but line 1 has 2 columns"));
  EXPECT_THAT(refused("1,0\n", {.label_column = -3}), HasSubstr("label_column is -3"));
  EXPECT_THAT(refused("1,0\n", {.label_columns = {0, 2}}),
              HasSubstr("label_columns[1] is 2, but line 1 has 2 columns"));
  EXPECT_THAT(refused("1,0\n", {.label_columns = {1, -1}}),
              HasSubstr("label_columns has -1, column 1, twice"));
  EXPECT_THAT(refused("1,0\n", {.label_columns = {1}, .num_classes = 2}),
              HasSubstr("num_classes is 2, but label_columns"));
  EXPECT_THAT(WhyCsvRefused("1,0\n", {.label_columns = {0, 1}}),
              HasSubstr("line 1 has 2 columns; expected the label and"));
  EXPECT_THAT(refused("1,0\n", {.delimiter = '"'}), HasSubstr("delimiter"));
  EXPECT_THAT(refused("1,0\n", {.num_classes = -1}), HasSubstr("num_classes is -1"));
  EXPECT_THAT(refused("1,2,0\n", {.sample_shape = Shape{3}}), HasSubstr("sample_shape [3] has 3 values"));
}

TEST(Csv, FilesAreRead) {
  const TemporaryFolder folder;
  EXPECT_EQ(LoadCsv(folder.Put("good.csv", "1,0\n"))->size(), 1);
  EXPECT_THAT(ErrorOf(ErrorCode::kDataLoss, [&] { LoadCsv(folder.Put("bad.csv", "1,x\n")); }),
              HasSubstr("bad.csv', line 1, column 1"));
  ErrorOf(ErrorCode::kNotFound, [&] { LoadCsv(folder.path("none.csv")); });
}

}  // namespace
}  // namespace sluice
