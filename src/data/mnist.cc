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

// What the file is called where MNIST is published, and what others make of that: unpacked on some systems
// the second hyphen is a point, and Kaggle's archive has each file in a folder of its own name.
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

Result<std::string> FindFile(const std::string& folder, Subset subset, const FileName& file) {
  const std::vector<std::string_view> subsets = subset == Subset::kTrain
                                                    ? std::vector<std::string_view>{"train"}
                                                    : std::vector<std::string_view>{"t10k", "test"};
  std::error_code ignored;
  for (const std::string_view subfolder : kFolders) {
    for (const std::string_view named : subsets) {
      for (const std::string& name : NamesOf(named, file)) {
        const fs::path path = fs::path(folder) / subfolder / name;
        if (fs::exists(path, ignored) && !fs::is_directory(path, ignored)) return path.string();
      }
    }
  }
  const std::string first = StrCat(subsets.front(), "-", file.what, "-", file.format);
  return Fail(ErrorCode::kNotFound, "no file '", (fs::path(folder) / first).string(), "', and no '",
              subsets.front(), "-", file.what, ".", file.format,
              "', packed (.gz) or in a folder 'raw' either; fetch MNIST with ", kMnistTool, " --out '",
              folder, "', or train on synthetic digits");
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
  RequireNoNul(folder).OrThrow();
  const std::string images_path = FindFile(folder, subset, {"images", "idx3-ubyte"}).OrThrow();
  const std::string labels_path = FindFile(folder, subset, {"labels", "idx1-ubyte"}).OrThrow();
  return JoinMnist(ReadIdx(images_path).OrThrow(), images_path, ReadIdx(labels_path).OrThrow(), labels_path)
      .OrThrow();
}

}  // namespace sluice
