// A parser for comma-separated numbers (RFC 4180).
//
// The parser reads the text once, line by line. The first line of numbers sets the number of columns, and
// every later line must have as many. Samples and labels are collected in vectors, from which Finish makes an
// ArrayDataset. LoadCsv reads a file and throws; ParseCsv returns a failure. Both run on the caller's thread.
#include "data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <locale>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/strings.h"

namespace sluice {
namespace {

constexpr size_t kShown = 40;  // characters of a wrong field that a failure shows
constexpr size_t kMaxColumns = 1 << 20;
constexpr int64_t kMaxClasses = int64_t{1} << 24;  // below it a float holds every class exactly

std::string Shown(std::string_view field) {
  return StrCat("'", StrPrintable(field.substr(0, kShown)), field.size() > kShown ? "...'" : "'");
}

// Returns the float64 nearest to the number in `text`. For a number out of float64's range it is the largest
// finite float64 with that sign or, close to 0, the smallest one above 0. Returns nullopt where `text` is no
// finite number.
std::optional<double> ParseNumber(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end || error == std::errc::invalid_argument || !std::isfinite(value)) return std::nullopt;
  if (error != std::errc::result_out_of_range) return value;
  std::istringstream stream{std::string(text)};  // from_chars does not say whether it overflows
  stream.imbue(std::locale::classic());
  stream >> value;
  return value != 0 ? value : std::numeric_limits<double>::denorm_min();
}

// Returns the float32 nearest to the number in `text`, without rounding to float64 first. `number`, the
// float64 of the same text, decides where it is out of float32's range: the result is then infinite or 0.
float FloatOf(std::string_view text, double number) {
  if (text.starts_with('+')) text.remove_prefix(1);
  float value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc()) return value;
  return static_cast<float>(number);
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view origin, const CsvOptions& options)
      : rest_(text), origin_(origin), options_(options) {}

  Result<std::shared_ptr<const ArrayDataset>> Parse() {
    if (Status status = CheckOptions(); !status) return status.failure();
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
    bool header = options_.has_header;
    while (!rest_.empty()) {
      if (Status status = ReadFields(); !status) return status.failure();
      if (fields_.size() == 1 && StrTrim(fields_[0]).empty() && !quoted_) continue;
      if (!std::exchange(header, false)) {
        if (Status status = AddLine(); !status) return status.failure();
      }
    }
    return Finish();
  }

 private:
  template <typename... Args>
  Failure Wrong(const Args&... args) const {
    return Fail(ErrorCode::kDataLoss, "'", origin_, "', line ", line_, args...);
  }
  template <typename... Args>
  Failure BadOption(const Args&... args) const {
    return Fail(ErrorCode::kInvalidArgument, "'", origin_, "': ", args...);
  }

  Status CheckOptions() const {
    if (options_.delimiter == '"' || options_.delimiter == '\n' || options_.delimiter == '\r')
      return BadOption("a quote or the end of a line cannot be the delimiter");
    if (!options_.label_columns.empty() && options_.num_classes != 0)
      return BadOption("num_classes is ", options_.num_classes,
                       ", but label_columns make labels arrays of numbers");
    if (options_.num_classes < 0 || options_.num_classes > kMaxClasses)
      return BadOption("num_classes is ", options_.num_classes, "; expected 0 to ", kMaxClasses);
    return Status::Ok();
  }

  // Reads the fields of the next record into fields_. It may take several lines, since a quoted field may
  // contain line ends.
  Status ReadFields() {
    line_ = next_line_;
    fields_.clear();
    quoted_ = false;
    while (true) {
      std::string field;
      if (Status status = rest_.starts_with('"') ? ReadQuoted(&field) : ReadPlain(&field); !status)
        return status;
      fields_.push_back(std::move(field));
      if (fields_.size() > kMaxColumns) return Wrong(" has more than ", kMaxColumns, " columns");
      if (rest_.starts_with(options_.delimiter)) {
        rest_.remove_prefix(1);
        continue;
      }
      if (rest_.starts_with("\r\n")) rest_.remove_prefix(1);
      if (rest_.starts_with('\n')) rest_.remove_prefix(1);
      ++next_line_;
      return Status::Ok();
    }
  }

  Status ReadPlain(std::string* field) {
    const char ends[] = {options_.delimiter, '\n'};
    size_t size = std::min(rest_.find_first_of(std::string_view(ends, 2)), rest_.size());
    if (size > 0 && size < rest_.size() && rest_[size] == '\n' && rest_[size - 1] == '\r') --size;
    *field = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return Status::Ok();
  }

  Status ReadQuoted(std::string* field) {
    quoted_ = true;
    while (true) {
      rest_.remove_prefix(1);  // the opening quote
      const size_t size = rest_.find('"');
      if (size == std::string_view::npos)
        return Wrong(", column ", fields_.size(), ": the quote is never closed");
      for (const char c : rest_.substr(0, size)) next_line_ += c == '\n';
      *field += rest_.substr(0, size);
      rest_.remove_prefix(size + 1);
      if (!rest_.starts_with('"')) break;
      *field += '"';  // two quotes stand for one
    }
    if (rest_.empty() || rest_[0] == options_.delimiter || rest_[0] == '\n' || rest_.starts_with("\r\n"))
      return Status::Ok();
    return Wrong(", column ", fields_.size(), ": ", Shown(rest_.substr(0, 1)), " follows a closing quote");
  }

  Status AddLine() {
    if (columns_ == 0) {
      if (Status status = TakeColumns(); !status) return status;
    }
    if (fields_.size() != columns_)
      return Wrong(" has ", Counted(static_cast<int64_t>(fields_.size()), "column"), "; line ", first_line_,
                   " has ", columns_);
    for (size_t column = 0; column < columns_; ++column) {
      if (Status status = AddField(column); !status) return status;
    }
    for (const size_t column : label_columns_) label_values_.push_back(line_values_[column]);
    ++lines_;
    return Status::Ok();
  }

  Status AddField(size_t column) {
    const auto number = ParseNumber(StrTrim(fields_[column]));
    if (!number)
      return Wrong(", column ", column, " is ", Shown(fields_[column]), "; expected a finite number");
    if (column == class_column_) return AddClass(column, *number);
    const float value = FloatOf(StrTrim(fields_[column]), *number);
    if (!std::isfinite(value)) {
      return Wrong(", column ", column, " is ", Shown(fields_[column]),
                   "; it does not fit float32, whose largest is ", std::numeric_limits<float>::max());
    }
    if (label_columns_.empty()) {
      values_.push_back(value);
    } else {
      line_values_[column] = value;
      if (!is_label_[column]) values_.push_back(value);
    }
    return Status::Ok();
  }

  Status AddClass(size_t column, double number) {
    const int64_t classes = options_.num_classes > 0 ? options_.num_classes : kMaxClasses;
    if (number < 0 || number >= static_cast<double>(classes) || number != std::floor(number)) {
      return Wrong(", column ", column, ", the label, is ", Shown(fields_[column]),
                   "; expected a whole number from 0 to ", classes - 1);
    }
    labels_.push_back(static_cast<int32_t>(number));
    return Status::Ok();
  }

  // Takes the number of columns from the first line of numbers, and checks the options against it.
  Status TakeColumns() {
    columns_ = fields_.size();
    first_line_ = line_;
    const auto columns = static_cast<int64_t>(columns_);
    is_label_.assign(columns_, false);
    const std::vector<int64_t>& asked = options_.label_columns;
    const auto labels = static_cast<int64_t>(std::max<size_t>(asked.size(), 1));
    for (size_t i = 0; i < asked.size(); ++i) {
      const auto place = Place(StrCat("label_columns[", i, "]"), asked[i]);
      if (!place) return place.failure();
      if (is_label_[place.value()])
        return BadOption("label_columns has ", asked[i], ", column ", place.value(), ", twice");
      is_label_[place.value()] = true;
      label_columns_.push_back(place.value());
    }
    if (asked.empty()) {
      const auto place = Place("label_column", options_.label_column);
      if (!place) return place.failure();
      class_column_ = place.value();
    }
    if (columns <= labels) {
      return Wrong(" has ", Counted(columns, "column"), "; expected the label and at least one more, with ",
                   Shown({&options_.delimiter, 1}), " between them");
    }
    line_values_.resize(columns_);
    shape_ = options_.sample_shape.ndim() == 0 ? Shape{columns - labels} : options_.sample_shape;
    if (shape_.size() != columns - labels) {
      return BadOption("sample_shape ", shape_, " has ", shape_.size(), " values, but line ", line_, " has ",
                       Counted(columns - labels, "column"), " beside the label");
    }
    return Status::Ok();
  }

  // Returns the column that the option means, counted from 0; a negative one counts from the end.
  Result<size_t> Place(const std::string& option, int64_t column) const {
    const auto columns = static_cast<int64_t>(columns_);
    const int64_t place = column + (column < 0 ? columns : 0);
    if (place >= 0 && place < columns) return static_cast<size_t>(place);
    return BadOption(option, " is ", column, ", but line ", line_, " has ", Counted(columns, "column"));
  }

  Result<std::shared_ptr<const ArrayDataset>> Finish() {
    if (lines_ == 0) return Fail(ErrorCode::kDataLoss, "'", origin_, "' has no line of numbers");
    if (label_columns_.empty())
      return std::shared_ptr<const ArrayDataset>(std::make_shared<ArrayDataset>(
          shape_, std::move(values_), std::move(labels_), options_.num_classes));
    return std::shared_ptr<const ArrayDataset>(std::make_shared<ArrayDataset>(
        shape_, std::move(values_), Shape{static_cast<int64_t>(label_columns_.size())},
        std::move(label_values_)));
  }

  std::string_view rest_;
  const std::string_view origin_;
  const CsvOptions& options_;
  int64_t line_ = 1;       // the line where fields_ begin
  int64_t next_line_ = 1;  // the line where rest_ begins
  std::vector<std::string> fields_;
  bool quoted_ = false;                 // whether any of fields_ was quoted
  size_t columns_ = 0;                  // 0: not known yet
  std::optional<size_t> class_column_;  // set when labels are classes
  std::vector<size_t> label_columns_;   // not empty when labels are arrays
  std::vector<bool> is_label_;          // by column
  int64_t first_line_ = 0;
  Shape shape_;
  std::vector<float> values_;
  std::vector<int32_t> labels_;
  std::vector<float> line_values_, label_values_;  // this line's values, by column; the labels of all lines
  int64_t lines_ = 0;
};

}  // namespace

Result<std::shared_ptr<const ArrayDataset>> ParseCsv(std::string_view text, std::string_view origin,
                                                     const CsvOptions& options) {
  return Parser(text, origin, options).Parse();
}

std::shared_ptr<const ArrayDataset> LoadCsv(const std::string& path, const CsvOptions& options) {
  const Buffer contents = ReadFile(path, kMaxCsvBytes).OrThrow();
  return ParseCsv(AsText(contents.bytes()), path, options).OrThrow();
}

}  // namespace sluice
