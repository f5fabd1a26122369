#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/strings.h"
#include "data/image_sample.h"
#include "data/required.h"
#include "sluice/error.h"
#include "sluice/image_files.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 29;  // per encoded image, as kMaxRecordBytes

bool IsImageName(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

// Returns the names in `folder` of its sub-folders if `folders`, else of its images, sorted by their
// bytes and without hidden ones. Throws Error when the folder cannot be listed.
std::vector<std::string> NamesIn(const fs::path& folder, bool folders) {
  ValidatePath(folder.string()).OrThrow();
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code ignored;
    const bool is_folder = it->is_directory(ignored);
    if (name.starts_with('.') || is_folder != folders) continue;
    if (folders || IsImageName(it->path())) names.push_back(name);
  }
  if (error) {
    const bool forbidden = error == std::errc::permission_denied;
    throw Error(
        forbidden ? ErrorCode::kPermissionDenied : ErrorCode::kNotFound,
        StrCat("cannot list the folder '", folder.string(), "': ", error.message(), "; check the path"));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

ImageFolderDataset::ImageFolderDataset(const std::string& folder, ImageOptions options) : options_(options) {
  RequireImageOptions(options_, "ImageFolderDataset");
  class_names_ = NamesIn(folder, /*folders=*/true);
  if (class_names_.empty()) {
    throw Error(ErrorCode::kNotFound,
                StrCat("the folder '", folder, "' has no sub-folder; expected one for each class"));
  }
  for (size_t c = 0; c < class_names_.size(); ++c) {
    const fs::path of_class = fs::path(folder) / class_names_[c];
    const std::vector<std::string> names = NamesIn(of_class, /*folders=*/false);
    if (names.empty()) {
      throw Error(ErrorCode::kNotFound,
                  StrCat("the class folder '", of_class.string(),
                         "' has no image; expected files ending in .png, .jpg or .jpeg"));
    }
    for (const std::string& name : names)
      files_.push_back({(of_class / name).string(), static_cast<int32_t>(c)});
  }
}

const std::string& ImageFolderDataset::path(int64_t index) const {
  RequireIndex("ImageFolderDataset", index, size());
  return files_[static_cast<size_t>(index)].path;
}

int32_t ImageFolderDataset::Get(int64_t index, std::span<float> sample) const {
  const Buffer contents = ReadFile(path(index), kMaxFileBytes).OrThrow();
  DecodeSample(contents.bytes(), path(index), options_, sample).OrThrow();
  return Label(index);
}

int32_t ImageFolderDataset::Label(int64_t index) const {
  RequireIndex("ImageFolderDataset", index, size());
  return files_[static_cast<size_t>(index)].label;
}

}  // namespace sluice
