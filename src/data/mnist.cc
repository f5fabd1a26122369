// LoadMnist: finds the two IDX files of a subset, reads them and joins them to an ImageDataset.
//
// MNIST and its relatives are published under several names and folders; FindFiles tries all of them.
// Images and labels always come from one folder. LoadMnist runs on the caller's thread and throws; the
// functions that it calls return failures.
#include "data/mnist.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/strings.h"
#include "base/tool_names.h"
#include "sluice/data_files.h"

namespace sluice {
namespace {

constexpr int64_t kClasses = 10;

Failure WrongAxes(const IdxArray& array, std::string_view origin, const char* what, int expected) {
  return Fail(ErrorCode::kDataLoss, "'", origin, "': number of axes is ", array.dims.size(), "; ", what,
              " have ", expected);
}

namespace fs = std::filesystem;

struct FileName {
  std::string_view what, format;  // "images", "idx3-ubyte"
};

// Returns the names that a file may have: the published one, and two variants. Some systems unpack the second
// hyphen as a point, and Kaggle's archive has each file in a folder of the same name.
std::vector<std::string> NamesOf(std::string_view subset, const FileName& file) {
  std::vector<std::string> names;
  for (const std::string_view separator : {"-", "."}) {
    const std::string name = StrCat(subset, "-", file.what, separator, file.format);
    for (const std::string& path : {name, StrCat(name, "/", name)})
      for (const std::string_view packed : {"", ".gz"}) names.push_back(StrCat(path, packed));
  }
  return names;
}

// torchvision puts its files into subfolders.
constexpr std::string_view kFolders[] = {"", "raw", "MNIST/raw", "FashionMNIST/raw"};

constexpr FileName kImages{"images", "idx3-ubyte"}, kLabels{"labels", "idx1-ubyte"};

std::vector<std::string_view> NamesOf(Subset subset) {
  return subset == Subset::kTrain ? std::vector<std::string_view>{"train"}
                                  : std::vector<std::string_view>{"t10k", "test"};
}

// Returns the path of the file in `folder`, not in its sub-folders; empty if there is none.
std::string FileIn(const fs::path& folder, Subset subset, const FileName& file) {
  std::error_code ignored;
  for (const std::string_view named : NamesOf(subset)) {
    for (const std::string& name : NamesOf(named, file)) {
      const fs::path path = folder / name;
      if (fs::exists(path, ignored) && !fs::is_directory(path, ignored)) return path.string();
    }
  }
  return "";
}

struct Files {
  std::string images, labels;
};

// Returns images and labels from one folder. Files from two folders might belong to two data sets with
// as many samples.
Result<Files> FindFiles(const std::string& folder, Subset subset) {
  fs::path near = folder;  // the first folder that has one of the two files
  const FileName* missing = nullptr;
  for (const std::string_view subfolder : kFolders) {
    const fs::path place = fs::path(folder) / subfolder;
    Files files{FileIn(place, subset, kImages), FileIn(place, subset, kLabels)};
    if (!files.images.empty() && !files.labels.empty()) return files;
    if (missing != nullptr || (files.images.empty() && files.labels.empty())) continue;
    near = place;
    missing = files.images.empty() ? &kImages : &kLabels;
  }
  const FileName& file = missing == nullptr ? kImages : *missing;
  const std::string_view named = NamesOf(subset).front();
  const std::string first = StrCat(named, "-", file.what, "-", file.format);
  return Fail(ErrorCode::kNotFound, "no file '", (near / first).string(), "', and no '", named, "-",
              file.what, ".", file.format, "', packed (.gz) or in a folder 'raw' either; fetch MNIST with ",
              MnistTool(), " --out '", folder, "', or train on synthetic digits");
}

}  // namespace

Result<std::shared_ptr<const ImageDataset>> JoinMnist(IdxArray images, std::string_view images_origin,
                                                      IdxArray labels, std::string_view labels_origin) {
  if (images.dims.size() != 3) return WrongAxes(images, images_origin, "images", 3);
  if (labels.dims.size() != 1) return WrongAxes(labels, labels_origin, "labels", 1);
  if (images.dims[0] != labels.dims[0]) {
    return Fail(ErrorCode::kDataLoss, "'", images_origin, "' has ", images.dims[0], " images, but '",
                labels_origin, "' has ", labels.dims[0], " labels; they belong to different data sets");
  }
  if (images.values.empty()) {
    return Fail(ErrorCode::kDataLoss, "'", images_origin, "': extents ", StrJoin(images.dims, "x"),
                " hold no pixels");
  }
  for (size_t i = 0; i < labels.values.size(); ++i) {
    if (labels.values[i] >= kClasses) {
      return Fail(ErrorCode::kDataLoss, "'", labels_origin, "': label ", i, " is ", int{labels.values[i]},
                  "; expected 0 to ", kClasses - 1);
    }
  }
  const Shape shape{1, images.dims[1], images.dims[2]};
  return std::shared_ptr<const ImageDataset>(
      std::make_shared<ImageDataset>(shape, std::move(images.values), std::move(labels.values), kClasses));
}

std::shared_ptr<const ImageDataset> LoadMnist(const std::string& folder, Subset subset) {
  ValidatePath(folder).OrThrow();
  const Files files = FindFiles(folder, subset).OrThrow();
  return JoinMnist(ReadIdx(files.images).OrThrow(), files.images, ReadIdx(files.labels).OrThrow(),
                   files.labels)
      .OrThrow();
}

}  // namespace sluice
