// A reader of RecordIO files and of the images in them (format: recordio.h).
//
// A record is a chain of parts. Every header is checked against the source's size and the flags' order before
// its contents are read, and memory is allocated per part, so that a false length cannot take more than the
// source holds. ImageRecordDataset calls these functions on the DataLoader's threads; they share no state.
#include "data/recordio.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "base/strings.h"

namespace sluice {
namespace {

constexpr uint32_t kMagic = 0xced7230a;
constexpr uint64_t kPartHeader = 8;
constexpr uint64_t kAlignment = 4;
constexpr size_t kImageHeader = 24;
constexpr uint64_t kBlock = 1 << 16;  // bytes that FindRecords, which needs only headers, reads at once

enum Flag : uint32_t { kWhole = 0, kFirst = 1, kMiddle = 2, kLast = 3 };

template <typename T>
T Load(Bytes bytes, size_t at) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

template <typename... Args>
Failure Corrupt(std::string_view origin, uint64_t offset, const Args&... args) {
  return Fail(ErrorCode::kDataLoss, "'", origin, "', byte ", offset, ": ", args...);
}

std::string Hex(uint32_t number) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%08x", number);
  return text;
}

struct Part {
  Flag flag = kWhole;
  uint64_t begin = 0;  // where its contents begin
  uint64_t size = 0;
  uint64_t end = 0;  // where the next part begins
};

// Reads the headers of parts. It reads the source in blocks of `block` bytes and keeps the last one, so that
// headers close together take one read.
class PartReader {
 public:
  PartReader(const RecordSource& source, uint64_t block) : source_(source), block_size_(block) {}

  Result<Part> Read(uint64_t offset) {
    if (offset > source_.size || source_.size - offset < kPartHeader) {
      return Corrupt(source_.origin, offset, "a record's header of ", kPartHeader,
                     " bytes begins here, but only ", offset > source_.size ? 0 : source_.size - offset,
                     " bytes follow");
    }
    if (Status status = Fetch(offset); !status) return status.failure();
    const Bytes header = Bytes(block_).subspan(offset - block_begin_, kPartHeader);
    const auto magic = Load<uint32_t>(header, 0);
    const auto word = Load<uint32_t>(header, 4);
    if (magic != kMagic)
      return Corrupt(source_.origin, offset, "a record begins with ", Hex(magic), "; expected ", Hex(kMagic));
    if (word >> 29 > kLast) {
      return Corrupt(source_.origin, offset, "the record's flag is ", word >> 29, "; expected 0 to ",
                     uint32_t{kLast});
    }
    Part part{static_cast<Flag>(word >> 29), offset + kPartHeader, word & ((1U << 29) - 1), 0};
    part.end = part.begin + (part.size + kAlignment - 1) / kAlignment * kAlignment;
    if (part.end > source_.size) {
      return Corrupt(source_.origin, offset, "the record has ", part.size, " bytes, but only ",
                     source_.size - part.begin, " follow; the file is truncated");
    }
    if ((part.flag == kFirst || part.flag == kMiddle) && part.size % kAlignment != 0) {
      return Corrupt(source_.origin, offset, "a part that another follows has ", part.size,
                     " bytes; expected a multiple of ", kAlignment);
    }
    return part;
  }

 private:
  Status Fetch(uint64_t offset) {
    if (offset >= block_begin_ && offset + kPartHeader <= block_begin_ + block_.size()) return Status::Ok();
    block_.resize(std::min(std::max(block_size_, kPartHeader), source_.size - offset));
    block_begin_ = offset;
    return source_.read_at(offset, block_);
  }

  const RecordSource& source_;
  const uint64_t block_size_;
  uint64_t block_begin_ = 0;
  std::vector<std::byte> block_;
};

// Appends the magic number, which the writer left out where it cut the record into parts.
void AppendMagic(std::vector<std::byte>* contents) {
  const Bytes magic = std::as_bytes(std::span(&kMagic, 1));
  contents->insert(contents->end(), magic.begin(), magic.end());
}

// Calls take(part, is_first) for each part of the record at `offset`. Returns where the next record
// begins, or the first failure.
template <typename Take>
Result<uint64_t> ForEachPart(PartReader* reader, std::string_view origin, uint64_t offset, const Take& take) {
  for (bool first = true;; first = false) {
    const Result<Part> read = reader->Read(offset);
    if (!read) return read.failure();
    const Part& part = read.value();
    const bool begins = part.flag == kWhole || part.flag == kFirst;
    if (begins != first) {
      return Corrupt(origin, offset, "the flag is ", uint32_t{part.flag}, ", but a record ",
                     first ? "begins here: expected 0 or 1" : "goes on here: expected 2 or 3");
    }
    if (Status status = take(part, first); !status) return status.failure();
    if (part.flag == kWhole || part.flag == kLast) return part.end;
    offset = part.end;
  }
}

}  // namespace

Result<Record> ReadRecord(const RecordSource& source, uint64_t offset, uint64_t max_bytes) {
  PartReader reader(source, kPartHeader);
  Record record;
  const auto take = [&](const Part& part, bool first) -> Status {
    if (!first) AppendMagic(&record.contents);
    const size_t old = record.contents.size();
    if (old > max_bytes || part.size > max_bytes - old) {
      return Fail(ErrorCode::kResourceExhausted, "'", source.origin, "', byte ", offset,
                  ": the record is longer than ", max_bytes, " bytes, the most that is read");
    }
    try {
      record.contents.resize(old + part.size);
    } catch (const std::bad_alloc&) {
      return Fail(ErrorCode::kResourceExhausted, "'", source.origin, "', byte ", offset,
                  ": no memory for a record of ", old + part.size, " bytes; allow the process more");
    }
    return source.read_at(part.begin, MutableBytes(record.contents).subspan(old));
  };
  const Result<uint64_t> end = ForEachPart(&reader, source.origin, offset, take);
  if (!end) return end.failure();
  record.end = end.value();
  return record;
}

Result<std::vector<std::byte>> ReadRecordHead(const RecordSource& source, uint64_t offset, uint64_t size) {
  PartReader reader(source, kPartHeader);
  std::vector<std::byte> head;
  const auto take = [&](const Part& part, bool first) -> Status {
    if (!first) AppendMagic(&head);
    const size_t old = head.size();
    if (old >= size) return Status::Ok();
    head.resize(old + std::min(part.size, size - old));
    return source.read_at(part.begin, MutableBytes(head).subspan(old));
  };
  const Result<uint64_t> end = ForEachPart(&reader, source.origin, offset, take);
  if (!end) return end.failure();
  head.resize(std::min<uint64_t>(head.size(), size));
  return head;
}

Result<std::vector<uint64_t>> FindRecords(const RecordSource& source) {
  PartReader reader(source, kBlock);
  std::vector<uint64_t> offsets;
  for (uint64_t offset = 0; offset < source.size;) {
    offsets.push_back(offset);
    const auto ignore = [](const Part&, bool) { return Status::Ok(); };
    const Result<uint64_t> end = ForEachPart(&reader, source.origin, offset, ignore);
    if (!end) return end.failure();
    offset = end.value();
  }
  return offsets;
}

Result<std::vector<uint64_t>> ParseRecordIndex(std::string_view text, std::string_view origin,
                                               uint64_t source_size) {
  std::vector<uint64_t> offsets;
  for (int64_t line = 1; !text.empty(); ++line) {
    const size_t size = std::min(text.find('\n'), text.size());
    const std::string_view row = StrTrim(text.substr(0, size));
    text.remove_prefix(std::min(size + 1, text.size()));
    if (row.empty()) continue;
    const size_t tab = row.find('\t');
    const auto key = ParseInt(row.substr(0, std::min(tab, row.size())));
    const auto offset = tab == std::string_view::npos ? std::nullopt : ParseInt(row.substr(tab + 1));
    if (!key || !offset) {
      return Fail(ErrorCode::kDataLoss, "'", origin, "', line ", line, " is '",
                  StrPrintable(row.substr(0, 60)), "'; expected a whole number, a tab and a position");
    }
    if (*offset < 0 || static_cast<uint64_t>(*offset) >= source_size ||
        static_cast<uint64_t>(*offset) % kAlignment != 0) {
      return Fail(ErrorCode::kDataLoss, "'", origin, "', line ", line, ": the position is ", *offset,
                  "; expected a multiple of ", kAlignment, " below ", source_size, ", the records' size");
    }
    offsets.push_back(static_cast<uint64_t>(*offset));
  }
  return offsets;
}

Result<ImageRecord> ParseImageRecord(Bytes record, std::string_view origin, uint64_t offset,
                                     int64_t num_classes) {
  const auto flag = record.size() < kImageHeader ? 0 : Load<uint32_t>(record, 0);
  const size_t header = kImageHeader + (flag > 0 ? sizeof(float) : 0);
  if (record.size() < header) {
    return Corrupt(origin, offset, "the record has ", record.size(), " bytes; an image's header has ",
                   header);
  }
  if (flag > 1) {
    return Fail(ErrorCode::kUnimplemented, "'", origin, "', byte ", offset, ": the image has ", flag,
                " labels; one class for each is read");
  }
  const auto label = Load<float>(record, flag > 0 ? kImageHeader : sizeof(flag));
  if (!(label >= 0 && static_cast<double>(label) < static_cast<double>(num_classes)) ||
      label != std::floor(label)) {
    return Corrupt(origin, offset, "the image's label is ", label, "; expected a whole number from 0 to ",
                   num_classes - 1);
  }
  return ImageRecord{static_cast<int32_t>(label), record.subspan(header)};
}

}  // namespace sluice
