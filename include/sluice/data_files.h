// Data sets that are read into memory from files.
//
// What a file says is checked before it is used. Errors: kNotFound; kDataLoss for contents that are not what
// the format asks for, naming file, place (record and byte, or line), what was found and expected;
// kInvalidArgument for options out of range.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sluice/dataset.h"

namespace sluice {

// MNIST or Fashion-MNIST from the four IDX files in `folder`, plain or .gz, as tools/get_mnist.py fetches
// them: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte.
// Other names that they have elsewhere are found, too: train-images.idx3-ubyte, test-... for t10k-..., each
// in a folder of its own name, or all in raw/, MNIST/raw/ or FashionMNIST/raw/. Images are [1, rows,
// columns].
std::shared_ptr<const ImageDataset> LoadMnist(const std::string& folder, Subset subset);

// CIFAR-10's binary version (https://www.cs.toronto.edu/~kriz/cifar.html), as tools/get_cifar10.py fetches
// it: data_batch_1.bin to data_batch_5.bin for training, test_batch.bin for testing, in `folder` or in its
// sub-folder cifar-10-batches-bin. Images are [3, 32, 32], red, green, blue.
std::shared_ptr<const ImageDataset> LoadCifar10(const std::string& folder, Subset subset);

struct CsvOptions {
  int64_t label_column = -1;  // counted from 0; negative: from the end
  // Not empty: a label is the numbers of these columns, counted likewise, an array [label_columns.size()] and
  // no class; label_column then says nothing.
  std::vector<int64_t> label_columns;
  char delimiter = ',';
  bool has_header = false;  // the first line is not read
  int64_t num_classes = 0;  // 0: the largest label and one
  Shape sample_shape;       // of the columns but the labels'; no axes: [columns]
};

// Comma-separated numbers (RFC 4180): every line has the same columns, each a finite number, quoted or not;
// a class is a whole number. A number becomes the nearest float32, 0 where it is
// smaller than any; one beyond the largest is an error. There are the labels and at least one column more.
// Lines end with \n or \r\n, the last may go without; empty lines and a UTF-8 byte order mark are skipped,
// blanks around a number too.
std::shared_ptr<const ArrayDataset> LoadCsv(const std::string& path, const CsvOptions& options = {});

}  // namespace sluice
