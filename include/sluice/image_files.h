// Data sets of PNG and JPEG images, read and decoded at every Get: by the DataLoader's threads. InMemory
// keeps what fits.
//
// A sample is an image as floats in 0..1 (value / 255), channels first: red, green, blue, or grey. An image
// is known by its first bytes, not by its name. Of PNG: every colour type; transparency is dropped, 16 bits
// are rounded to 8. Of JPEG: grey and colour, not CMYK. Orientation and colour profiles are ignored.
//
// Errors: kNotFound; kPermissionDenied; kDataLoss naming the file, the record and the byte where there are
// any, and what was found; kInvalidArgument for options out of range; kResourceExhausted for an image of more
// than 2^28 bytes, or when memory is refused. Decoding takes the image's bytes, and beside them a few rows'
// floats, whatever it is converted to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sluice/dataset.h"

namespace sluice {

struct ImageOptions {
  Shape shape;  // [channels, height, width] of every sample; channels: 1 (grey) or 3 (red, green, blue)
  // What becomes of an image of another height or width: an error, or bilinear resizing, as
  // transforms::Resize.
  bool resize = false;
  // What becomes of an image of the other number of channels: an error, or conversion. Colour to grey is
  // ITU-R BT.601's luma, 0.299 R + 0.587 G + 0.114 B; grey to colour repeats the channel.
  bool convert_colors = false;
};

// A folder with one sub-folder for each class. Class c is the c-th of the sub-folders' names sorted by their
// bytes; within a class, images are sorted in the same way. Files that do not end in .png, .jpg or .jpeg (in
// capitals or not), names that begin with a dot, and folders within a class's are left out.
class ImageFolderDataset final : public Dataset {
 public:
  // Lists the folder; reads no image. Throws Error: kNotFound for no folder, no class or a class without
  // images.
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

// Images in MXNet's RecordIO (https://mxnet.apache.org/versions/1.9.1/architecture/note_data_loading.html):
// the .rec file that im2rec makes, whose records are IRHeader and an encoded image. The label is IRHeader's,
// or its array of one: a whole number.
//
// The .idx file beside it (tab-separated key and position) says which records there are and in which order;
// without one the .rec file is gone through once, from record to record.
struct ImageRecordOptions {
  ImageOptions image;
  int64_t num_classes = 0;  // 0: the largest label and one, for which every record's header is read at first
  std::string index_path;   // "": PATH.idx for PATH.rec, if it is there
};
class ImageRecordDataset final : public Dataset {
 public:
  ImageRecordDataset(const std::string& path, ImageRecordOptions options);
  ~ImageRecordDataset() override;

  int64_t size() const override;
  const Shape& sample_shape() const override;
  int64_t num_classes() const override;
  int32_t Get(int64_t index, std::span<float> sample) const override;
  int32_t Label(int64_t index) const override;  // reads the record's header alone

 private:
  class Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace sluice
