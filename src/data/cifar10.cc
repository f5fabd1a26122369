#include "data/cifar10.h"

#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/strings.h"
#include "base/tool_names.h"
#include "sluice/data_files.h"

namespace sluice {
namespace {

constexpr size_t kPixels = 3072;  // 3 planes of 32 x 32
constexpr size_t kRecord = 1 + kPixels;
constexpr int64_t kClasses = 10;
constexpr int kTrainingFiles = 5;
// Twice the size of a valid file: a file that is too long is still read, so that the failure can name
// its size.
constexpr uint64_t kMaxFileBytes = 2 * kRecord * kCifar10BatchImages;

std::vector<std::string> FileNames(Subset subset) {
  if (subset == Subset::kTest) return {"test_batch.bin"};
  std::vector<std::string> names;
  for (int i = 1; i <= kTrainingFiles; ++i) names.push_back(StrCat("data_batch_", i, ".bin"));
  return names;
}

// Looks for the file in `folder` and in the sub-folder that the published archive unpacks to.
Result<std::string> FindFile(const std::string& folder, const std::string& name) {
  const std::filesystem::path here = folder;
  std::error_code ignored;
  for (const auto& path : {here / name, here / "cifar-10-batches-bin" / name}) {
    if (std::filesystem::exists(path, ignored)) return path.string();
  }
  return Fail(ErrorCode::kNotFound, "no file '", (here / name).string(),
              "', nor in its folder cifar-10-batches-bin; fetch CIFAR-10 with ", Cifar10Tool(), " --out '",
              folder, "', or train on synthetic pictures");
}

}  // namespace

Status AppendCifar10(Bytes bytes, std::string_view origin, Cifar10Batch* batch, int64_t images) {
  const size_t expected = static_cast<size_t>(images) * kRecord;
  if (bytes.size() != expected) {
    return Fail(ErrorCode::kDataLoss, "'", origin, "' has ", bytes.size(), " bytes; ", images, " records of ",
                kRecord, " bytes are ", expected, "; fetch it again: ", Cifar10Tool());
  }
  const std::span values(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  for (size_t at = 0; at < values.size(); at += kRecord) {
    if (values[at] >= kClasses) {
      return Fail(ErrorCode::kDataLoss, "'", origin, "': the label of record ", at / kRecord, ", byte ", at,
                  ", is ", int{values[at]}, "; expected 0 to ", kClasses - 1);
    }
    const auto pixels = values.subspan(at + 1, kPixels);
    batch->labels.push_back(values[at]);
    batch->pixels.insert(batch->pixels.end(), pixels.begin(), pixels.end());
  }
  return Status::Ok();
}

std::shared_ptr<const ImageDataset> LoadCifar10(const std::string& folder, Subset subset) {
  ValidatePath(folder).OrThrow();
  Cifar10Batch all;
  for (const std::string& name : FileNames(subset)) {
    const std::string path = FindFile(folder, name).OrThrow();
    const Buffer contents = ReadFile(path, kMaxFileBytes).OrThrow();
    AppendCifar10(contents.bytes(), path, &all).OrThrow();
  }
  return std::make_shared<ImageDataset>(Shape{3, 32, 32}, std::move(all.pixels), std::move(all.labels),
                                        kClasses);
}

}  // namespace sluice
