// Reading and writing safetensors files (format: safetensors.h).
//
// A file is checked in full before any tensor is returned: the header's length against the file's, each
// tensor's offsets against its shape and type, and that the tensors cover the data without holes or overlaps.
// Parameters, optimiser states and statistics are stored this way; all functions run on the caller's thread.
#include "data/safetensors/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/strings.h"
#include "data/safetensors/header.h"

namespace sluice {
namespace {

using safetensors::Entry;
using safetensors::Header;

constexpr uint64_t kLengthBytes = sizeof(uint64_t);

constexpr std::pair<std::string_view, DType> kDTypeNames[] = {
    {"F32", DType::kFloat32}, {"F64", DType::kFloat64}, {"F16", DType::kFloat16}, {"BF16", DType::kBFloat16},
    {"I32", DType::kInt32},   {"I64", DType::kInt64},   {"U8", DType::kUInt8}};

std::optional<DType> DTypeOfName(std::string_view name) {
  for (const auto& [known, dtype] : kDTypeNames) {
    if (known == name) return dtype;
  }
  return std::nullopt;
}

std::string_view NameOfDType(DType dtype) {
  for (const auto& [name, known] : kDTypeNames) {
    if (known == dtype) return name;
  }
  return "";
}

// Returns the tensor that `entry` describes, as a view into `data`; a failure when the two do not fit.
Result<TensorView> CheckEntry(const Entry& entry, Bytes data, std::string_view origin) {
  const std::string where = StrCat("'", origin, "': tensor '", StrPrintable(entry.name), "' ");
  const std::optional<DType> dtype = DTypeOfName(entry.dtype);
  if (!dtype) {
    return Fail(ErrorCode::kUnimplemented, where, "has dtype '", StrPrintable(entry.dtype),
                "'; F32, F64, F16, BF16, I32, I64 and U8 are read");
  }
  if (const std::string why = Shape::InvalidReason(entry.shape); !why.empty()) {
    return Fail(ErrorCode::kDataLoss, where, "has no valid shape: ", why);
  }
  if (entry.begin > entry.end || entry.end > data.size()) {
    return Fail(ErrorCode::kDataLoss, where, "has data_offsets [", entry.begin, ", ", entry.end,
                "]; expected an interval within the file's ", data.size(), " bytes of data");
  }
  const Shape shape(entry.shape);
  const uint64_t found = entry.end - entry.begin;
  const uint64_t elements = static_cast<uint64_t>(shape.size());
  if (elements > found || elements * SizeOf(*dtype) != found) {  // elements <= found: no overflow
    return Fail(ErrorCode::kDataLoss, where, "has ", found, " bytes of data; expected ", elements,
                " elements of ", SizeOf(*dtype), " bytes for ", entry.dtype, " ", shape);
  }
  return TensorView{entry.name, *dtype, shape, data.subspan(entry.begin, found)};
}

// Checks that the tensors, laid end to end, are exactly the data.
Status CheckCover(const std::vector<Entry>& entries, uint64_t data_size, std::string_view origin) {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t covered = 0;
  for (const Entry* entry : order) {
    if (entry->begin != covered) {
      return Fail(ErrorCode::kDataLoss, "'", origin, "': tensor '", StrPrintable(entry->name),
                  "' begins at byte ", entry->begin,
                  entry->begin < covered ? ", inside another one" : ", after a hole", "; expected ", covered);
    }
    covered = entry->end;
  }
  if (covered != data_size) {
    return Fail(ErrorCode::kDataLoss, "'", origin, "': the tensors cover ", covered, " bytes, but ",
                data_size, " follow the header");
  }
  return Status::Ok();
}

uint64_t LoadLittleEndian(Bytes bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  return value;
}

std::string StoreLittleEndian(uint64_t value) {
  std::string bytes(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) bytes[i] = static_cast<char>((value >> (8 * i)) & 0xff);
  return bytes;
}

Status CheckForWriting(std::span<const TensorView> tensors) {
  std::set<std::string_view> names;
  for (const TensorView& tensor : tensors) {
    if (tensor.name == safetensors::kMetadataName) {
      return Fail(ErrorCode::kInvalidArgument, "a tensor cannot be named '", tensor.name,
                  "': the format reserves it");
    }
    if (!names.insert(tensor.name).second) {
      return Fail(ErrorCode::kInvalidArgument, "two tensors are named '", tensor.name,
                  "'; names must differ");
    }
    const size_t width = SizeOf(tensor.dtype);
    const auto elements = static_cast<uint64_t>(tensor.shape.size());
    if (tensor.bytes.size() % width != 0 || tensor.bytes.size() / width != elements) {
      return Fail(ErrorCode::kInvalidArgument, "tensor '", tensor.name, "' has ", tensor.bytes.size(),
                  " bytes; ", Name(tensor.dtype), " ", tensor.shape, " needs ", SizeOf(tensor.dtype),
                  " per element");
    }
  }
  return Status::Ok();
}

}  // namespace

const TensorView* SafetensorsIndex::Find(std::string_view name) const {
  const auto place = places.find(name);
  return place == places.end() ? nullptr : &tensors[place->second];
}

Result<SafetensorsIndex> ParseSafetensors(Bytes bytes, std::string_view origin) {
  if (bytes.size() < kLengthBytes) {
    return Fail(ErrorCode::kDataLoss, "'", origin, "' has ", bytes.size(),
                " bytes; a safetensors file begins with 8 that tell the header's length");
  }
  const uint64_t length = LoadLittleEndian(bytes);
  const uint64_t limit = std::min<uint64_t>(bytes.size() - kLengthBytes, safetensors::kMaxHeaderBytes);
  if (length > limit) {
    return Fail(ErrorCode::kDataLoss, "'", origin, "': the safetensors header claims ", length,
                " bytes; at most ", limit, " are possible in a file of ", bytes.size());
  }
  Result<Header> header = safetensors::ParseHeader(AsText(bytes.subspan(kLengthBytes, length)), origin);
  if (!header) return header.failure();
  const Bytes data = bytes.subspan(kLengthBytes + length);
  SafetensorsIndex index{.tensors = {}, .metadata = std::move(header.value().metadata), .places = {}};
  for (const Entry& entry : header.value().entries) {
    Result<TensorView> tensor = CheckEntry(entry, data, origin);
    if (!tensor) return tensor.failure();
    index.places.emplace(entry.name, index.tensors.size());
    index.tensors.push_back(std::move(tensor).value());
  }
  if (Status status = CheckCover(header.value().entries, data.size(), origin); !status)
    return status.failure();
  return index;
}

Result<SafetensorsFile> ReadSafetensors(const std::string& path) {
  Result<Buffer> contents = ReadFile(path, std::numeric_limits<int64_t>::max());
  if (!contents) return contents.failure();
  Result<SafetensorsIndex> index = ParseSafetensors(contents.value().bytes(), path);
  if (!index) return index.failure();
  return SafetensorsFile{std::move(index).value(), std::move(contents).value()};
}

Status WriteSafetensors(const std::string& path, std::span<const TensorView> tensors,
                        const Metadata& metadata) {
  if (Status status = CheckForWriting(tensors); !status) return status;
  std::vector<const TensorView*> order;
  for (const TensorView& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
    return SizeOf(a->dtype) > SizeOf(b->dtype);
  });
  Header header{.entries = {}, .metadata = metadata};
  uint64_t offset = 0;
  for (const TensorView* tensor : order) {
    header.entries.push_back({tensor->name,
                              std::string(NameOfDType(tensor->dtype)),
                              {tensor->shape.dims().begin(), tensor->shape.dims().end()},
                              offset,
                              offset + tensor->bytes.size()});
    offset += tensor->bytes.size();
  }
  Result<std::string> text = safetensors::FormatHeader(header);
  if (!text) return text.failure();
  if (text.value().size() > safetensors::kMaxHeaderBytes) {
    return Fail(ErrorCode::kInvalidArgument, "the header of '", path, "' would have ", text.value().size(),
                " bytes; readers accept ", safetensors::kMaxHeaderBytes, ": shorten names or metadata");
  }
  const std::string length = StoreLittleEndian(text.value().size());
  std::vector<Bytes> pieces{AsBytes(length), AsBytes(text.value())};
  for (const TensorView* tensor : order) pieces.push_back(tensor->bytes);
  return WriteFileAtomically(path, pieces);
}

}  // namespace sluice
