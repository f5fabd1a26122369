// A parser for IDX files, plain or gzipped (format: idx.h).
//
// A header is not trusted: extents are multiplied with a check against max_bytes, and the values that follow
// must be exactly as many as the extents say. Gunzip unpacks in steps of 1 MiB and stops at its limit, so
// that a small file cannot take unlimited memory. LoadMnist calls these functions on the caller's thread.
#include "data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include "base/file.h"
#include "base/tool_names.h"

namespace sluice {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;
constexpr size_t kMaxAxes = 4;
constexpr size_t kMagicBytes = 4;

template <typename... Args>
Failure Corrupt(std::string_view origin, const Args&... args) {
  return Fail(ErrorCode::kDataLoss, "'", origin, "': ", args...);
}

bool IsGzip(std::span<const uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

std::span<const uint8_t> AsUnsigned(Bytes bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

Status CheckMagic(std::span<const uint8_t> bytes, std::string_view origin) {
  if (bytes.size() < kMagicBytes) {
    return Corrupt(origin, "has ", bytes.size(), " bytes; an IDX file begins with 4");
  }
  if (bytes[0] != 0 || bytes[1] != 0) {
    return Corrupt(origin, "begins with the bytes ", int{bytes[0]}, " ", int{bytes[1]},
                   "; an IDX file begins with 0 0");
  }
  if (bytes[2] != kUnsignedByte) {
    return Corrupt(origin, "type code is ", int{bytes[2]}, "; expected 8 (unsigned bytes)");
  }
  if (bytes[3] < 1 || bytes[3] > kMaxAxes) {
    return Corrupt(origin, "number of axes is ", int{bytes[3]}, "; expected 1 to ", kMaxAxes);
  }
  if (bytes.size() < kMagicBytes + size_t{4} * bytes[3]) {
    return Corrupt(origin, "ends inside the extents: ", bytes.size(), " bytes; ", int{bytes[3]},
                   " axes need ", kMagicBytes + size_t{4} * bytes[3]);
  }
  return Status::Ok();
}

Result<IdxArray> ParsePlain(std::span<const uint8_t> bytes, std::string_view origin, uint64_t max_bytes) {
  if (Status status = CheckMagic(bytes, origin); !status) return status.failure();
  IdxArray array;
  uint64_t size = 1;
  const size_t header = kMagicBytes + size_t{4} * bytes[3];
  for (size_t at = kMagicBytes; at < header; at += 4) {
    const uint64_t extent = uint64_t{bytes[at]} << 24 | uint64_t{bytes[at + 1]} << 16 |
                            uint64_t{bytes[at + 2]} << 8 | uint64_t{bytes[at + 3]};
    if (extent != 0 && size > max_bytes / extent) {
      return Corrupt(origin, "extent ", array.dims.size(), " is ", extent,
                     ", which makes the array larger than ", max_bytes, " bytes, the most that is read");
    }
    size *= extent;
    array.dims.push_back(static_cast<int64_t>(extent));
  }
  const auto values = bytes.subspan(header);
  if (values.size() != size) {
    return Corrupt(origin, "extents ", StrJoin(array.dims, "x"), " promise ", size, " values, but ",
                   values.size(), " follow; the file is ",
                   values.size() < size ? "truncated" : "longer than it says",
                   "; fetch it again: ", MnistTool());
  }
  array.values.assign(values.begin(), values.end());
  return array;
}

// Owns a z_stream that unpacks gzip data; the destructor ends it.
class Inflater {
 public:
  Inflater() { ok_ = inflateInit2(&stream_, 15 + 16) == Z_OK; }  // + 16: with gzip's header and checksum
  ~Inflater() {
    if (ok_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  bool ok() const { return ok_; }
  z_stream* operator->() { return &stream_; }
  z_stream* get() { return &stream_; }

 private:
  z_stream stream_{};
  bool ok_ = false;
};

}  // namespace

Result<std::vector<uint8_t>> Gunzip(Bytes packed, std::string_view origin, uint64_t max_bytes) {
  constexpr size_t kStep = size_t{1} << 20;
  Inflater stream;
  if (!stream.ok()) return Fail(ErrorCode::kResourceExhausted, "'", origin, "': no memory to unpack it");
  std::span<const uint8_t> rest = AsUnsigned(packed);
  std::vector<uint8_t> step(kStep);
  std::vector<uint8_t> unpacked;
  while (true) {
    stream->next_in = const_cast<Bytef*>(rest.data());  // NOLINT: zlib does not write there
    stream->avail_in = static_cast<uInt>(std::min<size_t>(rest.size(), std::numeric_limits<uInt>::max()));
    stream->next_out = step.data();
    stream->avail_out = static_cast<uInt>(step.size());
    const uInt given = stream->avail_in;
    const int code = inflate(stream.get(), Z_NO_FLUSH);
    const size_t made = step.size() - stream->avail_out;
    rest = rest.subspan(given - stream->avail_in);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      return Corrupt(origin, "gzip data is corrupt near byte ", packed.size() - rest.size(), ": ",
                     stream->msg != nullptr ? stream->msg : zError(code), "; fetch it again: ", MnistTool());
    }
    if (made > max_bytes - unpacked.size()) {
      return Fail(ErrorCode::kResourceExhausted, "'", origin, "' unpacks to more than ", max_bytes,
                  " bytes, the most that is read");
    }
    unpacked.insert(unpacked.end(), step.begin(), step.begin() + static_cast<ptrdiff_t>(made));
    if (code == Z_STREAM_END) {
      if (rest.empty()) return unpacked;
      if (!IsGzip(rest)) return Corrupt(origin, rest.size(), " bytes follow the end of the gzip data");
      inflateReset(stream.get());
    } else if (rest.empty() && made < step.size()) {
      return Corrupt(origin, "gzip data is truncated after ", packed.size(),
                     " bytes; fetch it again: ", MnistTool());
    }
  }
}

Result<IdxArray> ParseIdx(Bytes bytes, std::string_view origin, uint64_t max_bytes) {
  if (!IsGzip(AsUnsigned(bytes))) return ParsePlain(AsUnsigned(bytes), origin, max_bytes);
  // max_bytes limits the values alone, so the largest header is allowed on top.
  const Result<std::vector<uint8_t>> plain = Gunzip(bytes, origin, max_bytes + kMagicBytes + 4 * kMaxAxes);
  if (!plain) return plain.failure();
  return ParsePlain(plain.value(), origin, max_bytes);
}

Result<IdxArray> ReadIdx(const std::string& path) {
  const Result<Buffer> contents = ReadFile(path, kMaxIdxBytes);
  if (!contents) return contents.failure();
  return ParseIdx(contents.value().bytes(), path);
}

}  // namespace sluice
