// Data sets that are read into memory from files.
//
// The functions check the contents of files before they use them. Errors: kNotFound; kDataLoss for contents
// that violate the format, which names the file, the place (record and byte, or line), what was found and
// what was expected; kInvalidArgument for options out of range.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sluice/dataset.h"

namespace sluice {

// Reads MNIST or Fashion-MNIST from the four IDX files in `folder`, plain or .gz, as tools/get_mnist.py
// fetches them: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte,
// t10k-labels-idx1-ubyte. Common variants are accepted as well: train-images.idx3-ubyte, test-... in place of
// t10k-..., each file in a folder of its own name, or all files in raw/, MNIST/raw/ or FashionMNIST/raw/.
// Images are [1, rows, columns].
std::shared_ptr<const ImageDataset> LoadMnist(const std::string& folder, Subset subset);

// Reads the binary version of CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html), as tools/get_cifar10.py
// fetches it: data_batch_1.bin to data_batch_5.bin for training, test_batch.bin for testing, in `folder` or
// in its sub-folder cifar-10-batches-bin. Images are [3, 32, 32]: red, green, blue.
std::shared_ptr<const ImageDataset> LoadCifar10(const std::string& folder, Subset subset);

struct CsvOptions {
  int64_t label_column = -1;  // counted from 0; if negative, from the end
  // If not empty, labels are not classes but arrays [label_columns.size()] of the numbers in these columns,
  // which are counted likewise; label_column is then ignored.
  std::vector<int64_t> label_columns;
  char delimiter = ',';
  bool has_header = false;  // skips the first line
  int64_t num_classes = 0;  // 0: the largest label plus one
  Shape sample_shape;       // the shape of the other columns; a shape without axes means [columns]
};

// Reads comma-separated numbers (RFC 4180). Every line has the same columns: the labels and at least one
// more. Each is a finite number, quoted or not; a class is an integer. A number becomes the nearest float32,
// which is 0 for a number smaller than any; one beyond the largest is an error. Lines end with \n or \r\n,
// which the last may lack. Empty lines, a UTF-8 byte order mark and blanks around a number are skipped.
std::shared_ptr<const ArrayDataset> LoadCsv(const std::string& path, const CsvOptions& options = {});

}  // namespace sluice
