// The JSON header of a safetensors file: a SAX parser and a writer.
//
// HeaderReader is a state machine: its Place says which kind of value may come next. It needs no memory for
// nesting, since anything nested deeper than the format is refused at once. The parser checks only the JSON
// types and that each field occurs once; safetensors.cc checks shapes and offsets, and calls these functions
// on the thread of its own caller.
#include "data/safetensors/header.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/strings.h"
#include "sluice/shape.h"

namespace sluice::safetensors {
namespace {

using nlohmann::json;

// Receives the events of nlohmann's SAX parser. Each callback returns false, with failure() set, to stop it.
class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(std::string_view origin) : origin_(origin) {}

  Header& header() { return header_; }
  const std::optional<Failure>& failure() const { return failure_; }

  bool start_object(size_t) override {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kTop;
        return true;
      case Place::kTopValue:
        place_ = key_ == kMetadataName ? Place::kMetadata : Place::kEntry;
        if (place_ == Place::kEntry) header_.entries.push_back(Entry{.name = key_});
        fields_.clear();
        return true;
      default:
        return Unexpected("an object");
    }
  }

  bool end_object() override {
    if (place_ == Place::kEntry) {
      for (const char* field : {"dtype", "shape", "data_offsets"}) {
        if (!fields_.contains(field)) return ThrowInvalid("lacks the field '", field, "'");
      }
    }
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }

  bool key(std::string& name) override {
    if (place_ == Place::kTop) {
      key_ = name;
      if (!names_.insert(name).second) return ThrowInvalid("occurs twice");
      place_ = Place::kTopValue;
      return true;
    }
    field_ = name;
    if (!fields_.insert(name).second) return ThrowInvalid("has the field '", name, "' twice");
    if (place_ == Place::kMetadata) {
      place_ = Place::kMetadataValue;
    } else if (name == "dtype") {
      place_ = Place::kDType;
    } else if (name == "shape") {
      place_ = Place::kShapeValue;
    } else if (name == "data_offsets") {
      place_ = Place::kOffsetsValue;
    } else {
      return ThrowInvalid("has an unknown field '", name, "'");
    }
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::kShapeValue) {
      place_ = Place::kShape;
    } else if (place_ == Place::kOffsetsValue) {
      place_ = Place::kOffsets;
      offsets_.clear();
    } else {
      return Unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kOffsets) {
      if (offsets_.size() != 2)
        return ThrowInvalid("has ", offsets_.size(), " data_offsets; expected [begin, end]");
      header_.entries.back().begin = offsets_[0];
      header_.entries.back().end = offsets_[1];
    }
    place_ = Place::kEntry;
    return true;
  }

  bool number_unsigned(uint64_t value) override {
    if (place_ == Place::kOffsets) {
      if (offsets_.size() == 2) return ThrowInvalid("has more than two data_offsets; expected [begin, end]");
      offsets_.push_back(value);
      return true;
    }
    if (place_ != Place::kShape) return Unexpected("a number");
    std::vector<int64_t>& shape = header_.entries.back().shape;
    if (value > INT64_MAX)
      return ThrowInvalid("has an extent of ", value, " in its shape; at most 2^63 - 1 is accepted");
    if (shape.size() == Shape::kMaxAxes) return ThrowInvalid("has more than ", Shape::kMaxAxes, " axes");
    shape.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::kDType) {
      header_.entries.back().dtype = value;
      place_ = Place::kEntry;
    } else if (place_ == Place::kMetadataValue) {
      header_.metadata.emplace(field_, value);
      place_ = Place::kMetadata;
    } else {
      return Unexpected("a text");
    }
    return true;
  }

  bool number_integer(int64_t value) override { return Unexpected(StrCat("the number ", value)); }
  bool number_float(double, const std::string& text) override { return Unexpected("the number " + text); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool null() override { return Unexpected("null"); }
  bool binary(json::binary_t&) override { return Unexpected("binary data"); }
  bool parse_error(size_t position, const std::string&, const json::exception& error) override {
    failure_ = Fail(ErrorCode::kDataLoss, "'", origin_, "': the safetensors header is not JSON at byte ",
                    position, " of it: ", StrPrintable(error.what()));
    return false;
  }

 private:
  enum class Place {
    kStart,
    kTop,
    kTopValue,
    kMetadata,
    kMetadataValue,
    kEntry,
    kDType,
    kShapeValue,
    kShape,
    kOffsetsValue,
    kOffsets,
    kEnd
  };

  const char* Expected() const {
    switch (place_) {
      case Place::kDType:
        return "a text in 'dtype'";
      case Place::kShapeValue:
        return "an array in 'shape'";
      case Place::kShape:
        return "whole numbers of at least 0 in 'shape'";
      case Place::kOffsetsValue:
      case Place::kOffsets:
        return "[begin, end], whole numbers of at least 0, in 'data_offsets'";
      case Place::kMetadataValue:
        return "a text for every metadata entry";
      default:
        return "an object";
    }
  }

  bool Unexpected(const std::string& found) {
    if (place_ != Place::kStart) return ThrowInvalid("holds ", found, "; expected ", Expected());
    failure_ = Fail(ErrorCode::kDataLoss, "'", origin_, "': the safetensors header is ", found,
                    "; expected an object");
    return false;
  }

  template <typename... Args>
  bool ThrowInvalid(const Args&... args) {
    failure_ = Fail(ErrorCode::kDataLoss, "'", origin_, "': '", StrPrintable(key_),
                    "' in the safetensors header ", StrPrintable(StrCat(args...)));
    return false;
  }

  std::string_view origin_;
  Place place_ = Place::kStart;
  std::string key_;               // the current tensor's name
  std::string field_;             // the current field's name, or the metadata entry's
  std::set<std::string> names_;   // tensors so far
  std::set<std::string> fields_;  // fields of the current tensor so far
  std::vector<uint64_t> offsets_;
  Header header_;
  std::optional<Failure> failure_;
};

// Returns `text` as a JSON string, quoted and escaped; nullopt when it is not UTF-8.
std::optional<std::string> Quote(const std::string& text) {
  // dump() throws for a broken sequence only in strict mode. The two modes here change such a text
  // differently.
  std::string replaced = json(text).dump(-1, ' ', false, json::error_handler_t::replace);
  if (replaced != json(text).dump(-1, ' ', false, json::error_handler_t::ignore)) return std::nullopt;
  return replaced;
}

Failure NotUtf8(const std::string& text) {
  return Fail(ErrorCode::kInvalidArgument, "'", StrPrintable(text),
              "' is not UTF-8, as names in a safetensors file must be");
}

Result<std::string> FormatMetadata(const std::map<std::string, std::string>& metadata) {
  std::string text = StrCat('"', kMetadataName, "\":{");
  for (const auto& [name, value] : metadata) {
    const auto quoted_name = Quote(name);
    const auto quoted_value = Quote(value);
    if (!quoted_name || !quoted_value) return NotUtf8(quoted_name ? value : name);
    if (text.back() != '{') text += ',';
    text += *quoted_name + ":" + *quoted_value;
  }
  return text + "}";
}

}  // namespace

Result<Header> ParseHeader(std::string_view text, std::string_view origin) {
  HeaderReader reader(origin);
  if (!json::sax_parse(text.begin(), text.end(), &reader)) {
    if (reader.failure()) return *reader.failure();
    return Fail(ErrorCode::kDataLoss, "'", origin, "': the safetensors header is not JSON");
  }
  return std::move(reader.header());
}

Result<std::string> FormatHeader(const Header& header) {
  std::string text = "{";
  if (!header.metadata.empty()) {
    Result<std::string> metadata = FormatMetadata(header.metadata);
    if (!metadata) return metadata;
    text += metadata.value();
  }
  for (const Entry& entry : header.entries) {
    const auto name = Quote(entry.name);
    if (!name) return NotUtf8(entry.name);
    if (text.size() > 1) text += ',';
    text += StrCat(*name, ":{\"dtype\":\"", entry.dtype, "\",\"shape\":[", StrJoin(entry.shape, ","),
                   "],\"data_offsets\":[", entry.begin, ",", entry.end, "]}");
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace sluice::safetensors
