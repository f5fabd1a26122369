#include "data/mnist.h"

#include <filesystem>
#include <utility>

#include "base/strings.h"
#include "sluice/data_files.h"

namespace sluice {
namespace {

constexpr int64_t kClasses = 10;

Failure WrongAxes(const IdxArray& array, std::string_view origin, const char* what, int expected) {
  return Fail(ErrorCode::kDataLoss, "'", origin, "': number of axes is ", array.dims.size(), "; ", what,
              " have ", expected);
}

// The plain file or, when there is none, the gzipped one.
Result<std::string> FindFile(const std::string& folder, const std::string& name) {
  const std::string plain = (std::filesystem::path(folder) / name).string();
  std::error_code ignored;
  for (const std::string& path : {plain, plain + ".gz"}) {
    if (std::filesystem::exists(path, ignored)) return path;
  }
  return Fail(ErrorCode::kNotFound, "no file '", plain, "' and no '", name,
              ".gz' beside it; fetch MNIST with ", "tools/get_mnist.py --out '", folder,
              "', or train on synthetic digits");
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
  const std::string prefix = subset == Subset::kTrain ? "train" : "t10k";
  const std::string images_path = FindFile(folder, prefix + "-images-idx3-ubyte").OrThrow();
  const std::string labels_path = FindFile(folder, prefix + "-labels-idx1-ubyte").OrThrow();
  return JoinMnist(ReadIdx(images_path).OrThrow(), images_path, ReadIdx(labels_path).OrThrow(), labels_path)
      .OrThrow();
}

}  // namespace sluice
