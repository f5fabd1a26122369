// Data sets of PNG and JPEG images. Every Get reads and decodes an image, in training on the threads of the
// DataLoader. InMemory (sluice/dataset.h) keeps a data set that fits in memory.
//
// A sample is an image as floats in 0..1 (value / 255), channels first: red, green, blue, or grey. The first
// bytes of an image, not its name, determine its format. PNG images may have every colour type; transparency
// is dropped, and 16 bits are rounded to 8. JPEG images may be grey or in colour, but not CMYK. Orientation
// and colour profiles are ignored.
//
// Errors: kNotFound; kPermissionDenied; kDataLoss, which names the file, the record and the byte if there are
// any, and what was found; kInvalidArgument for options out of range; kResourceExhausted for an image of more
// than 2^28 bytes, or when memory is refused. Decoding needs memory for the bytes of the image and for the
// floats of a few rows, whatever the image is converted to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sluice/dataset.h"

namespace sluice {

struct ImageOptions {
  Shape shape;  // [channels, height, width] of every sample; channels: 1 (grey) or 3 (red, green, blue)
  // Whether an image of another height or width is resized, bilinearly as by transforms::Resize; if not, it
  // is an error.
  bool resize = false;
  // Whether an image of the other number of channels is converted; if not, it is an error. Colour becomes
  // grey by ITU-R BT.601's luma, 0.299 R + 0.587 G + 0.114 B; grey becomes colour by repeating the channel.
  bool convert_colors = false;
};

// The images in a folder that has one sub-folder for each class. Class c is the c-th of the sub-folders,
// whose names are sorted by their bytes; the images of a class are sorted in the same way. Files that do not
// end in .png, .jpg or .jpeg (in capitals or not), names that begin with a dot, and folders within the folder
// of a class are left out.
class ImageFolderDataset final : public Dataset {
 public:
  // Lists the folder, but reads no image. Throws Error(kNotFound) if there is no folder or no class, or if a
  // class has no images.
  ImageFolderDataset(const std::string& folder, ImageOptions options);

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  const Shape& sample_shape() const override { return options_.shape; }
  int64_t num_classes() const override { return static_cast<int64_t>(class_names_.size()); }
  int32_t Get(int64_t index, std::span<float> sample) const override;
  int32_t Label(int64_t index) const override;

  const std::vector<std::string>& class_names() const { return class_names_; }
  const std::string& path(int64_t index) const;

 private:
  struct File {
    std::string path;
    int32_t label;
  };
  ImageOptions options_;
  std::vector<std::string> class_names_;
  std::vector<File> files_;
};

// The images in a file of MXNet's RecordIO format
// (https://mxnet.apache.org/versions/1.9.1/architecture/note_data_loading.html), as im2rec writes it. Each
// record of the .rec file is an IRHeader and an encoded image. The label is that of the IRHeader, or its
// array of one label; it must be an integer.
//
// The .idx file beside it (tab-separated key and position) lists the records and their order. Without one,
// the .rec file is scanned once from record to record.
struct ImageRecordOptions {
  ImageOptions image;
  int64_t num_classes = 0;  // 0: the largest label plus one; the constructor then reads all records' headers
  std::string index_path;   // "": PATH.idx for PATH.rec, if that file exists
};
class ImageRecordDataset final : public Dataset {
 public:
  ImageRecordDataset(const std::string& path, ImageRecordOptions options);
  ~ImageRecordDataset() override;

  int64_t size() const override;
  const Shape& sample_shape() const override;
  int64_t num_classes() const override;
  int32_t Get(int64_t index, std::span<float> sample) const override;
  int32_t Label(int64_t index) const override;  // reads only the record's header

 private:
  class Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace sluice
