// ImageRecordDataset: images in a RecordIO file.
//
// The constructor opens the file and finds where records begin, from the .idx file or by reading all headers;
// nothing changes afterwards. Get and Label read at an offset of their own (pread), so that the DataLoader's
// threads share the open file without a lock.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/strings.h"
#include "data/image_sample.h"
#include "data/recordio.h"
#include "data/required.h"
#include "sluice/error.h"
#include "sluice/image_files.h"

namespace sluice {
namespace {

constexpr int64_t kMaxClasses = int64_t{1} << 24;  // below it a float holds every class exactly
constexpr uint64_t kMaxIndexBytes = uint64_t{4} << 30;

// Returns PATH.idx for PATH.rec if that file exists, else "".
std::string IndexBeside(const std::string& path) {
  const std::string index = std::filesystem::path(path).replace_extension(".idx").string();
  std::error_code ignored;
  return std::filesystem::is_regular_file(index, ignored) ? index : "";
}

}  // namespace

class ImageRecordDataset::Impl {
 public:
  Impl(const std::string& path, ImageRecordOptions options)
      : options_(std::move(options)), file_(RandomAccessFile::Open(path).OrThrow()) {
    source_ = {file_.path(), file_.size(),
               [this](uint64_t offset, MutableBytes into) { return file_.ReadAt(offset, into); }};
    RequireImageOptions(options_.image, "ImageRecordDataset");
    if (options_.num_classes < 0 || options_.num_classes > kMaxClasses) {
      throw Error(ErrorCode::kInvalidArgument, StrCat("ImageRecordDataset: num_classes is ",
                                                      options_.num_classes, "; expected 0 to ", kMaxClasses));
    }
    offsets_ = FindOffsets();
    if (offsets_.empty()) throw Error(ErrorCode::kDataLoss, StrCat("'", path, "' has no record"));
    num_classes_ = options_.num_classes > 0 ? options_.num_classes : CountClasses();
  }

  int64_t size() const { return static_cast<int64_t>(offsets_.size()); }
  const Shape& shape() const { return options_.image.shape; }
  int64_t num_classes() const { return num_classes_; }

  int32_t Get(int64_t index, std::span<float> sample) const {
    const uint64_t offset = OffsetOf(index);
    const Record record = ReadRecord(source_, offset).OrThrow();
    const ImageRecord parsed =
        ParseImageRecord(record.contents, source_.origin, offset, num_classes_).OrThrow();
    const std::string origin = StrCat(source_.origin, ", record ", index, " at byte ", offset);
    DecodeSample(parsed.image, origin, options_.image, sample).OrThrow();
    return parsed.label;
  }

  int32_t Label(int64_t index) const { return LabelBelow(index, num_classes_); }

 private:
  std::vector<uint64_t> FindOffsets() const {
    const std::string index = options_.index_path.empty() ? IndexBeside(file_.path()) : options_.index_path;
    if (index.empty()) return FindRecords(source_).OrThrow();
    const Buffer contents = ReadFile(index, kMaxIndexBytes).OrThrow();
    auto offsets = ParseRecordIndex(AsText(contents.bytes()), index, file_.size()).OrThrow();
    if (offsets.empty()) {
      throw Error(ErrorCode::kDataLoss,
                  StrCat("'", index, "' lists no record; without it all of '", file_.path(), "' is read"));
    }
    return offsets;
  }

  int64_t CountClasses() const {
    int64_t largest = 0;
    for (int64_t i = 0; i < size(); ++i) largest = std::max<int64_t>(largest, LabelBelow(i, kMaxClasses));
    return largest + 1;
  }

  uint64_t OffsetOf(int64_t index) const {
    RequireIndex("ImageRecordDataset", index, size());
    return offsets_[static_cast<size_t>(index)];
  }

  int32_t LabelBelow(int64_t index, int64_t num_classes) const {
    const uint64_t offset = OffsetOf(index);
    const auto head = ReadRecordHead(source_, offset, kImageRecordHead).OrThrow();
    return ParseImageRecord(head, source_.origin, offset, num_classes).OrThrow().label;
  }

  const ImageRecordOptions options_;
  const RandomAccessFile file_;
  RecordSource source_;
  std::vector<uint64_t> offsets_;  // where the records begin
  int64_t num_classes_ = 0;
};

ImageRecordDataset::ImageRecordDataset(const std::string& path, ImageRecordOptions options)
    : impl_(std::make_unique<const Impl>(path, std::move(options))) {}
ImageRecordDataset::~ImageRecordDataset() = default;
int64_t ImageRecordDataset::size() const {
  return impl_->size();
}
const Shape& ImageRecordDataset::sample_shape() const {
  return impl_->shape();
}
int64_t ImageRecordDataset::num_classes() const {
  return impl_->num_classes();
}
int32_t ImageRecordDataset::Get(int64_t index, std::span<float> sample) const {
  return impl_->Get(index, sample);
}
int32_t ImageRecordDataset::Label(int64_t index) const {
  return impl_->Label(index);
}

}  // namespace sluice
