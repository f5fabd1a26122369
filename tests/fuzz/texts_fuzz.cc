#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "sluice/error.h"
#include "text_files.h"

namespace {

void CheckWhole(const sluice::ArrayDataset& set, const sluice::examples::TextOptions& options, int64_t ids,
                std::string_view text) {
  SLUICE_CHECK(set.size() > 0 && static_cast<size_t>(set.size()) <= text.size());
  SLUICE_CHECK(set.sample_shape() == sluice::Shape{options.length});
  for (int64_t i = 0; i < set.size(); ++i) {
    SLUICE_CHECK(set.Label(i) >= 0 && set.Label(i) < set.num_classes());
    for (const float id : set.sample(i))
      SLUICE_CHECK(id >= 0 && id < static_cast<float>(ids) && id == std::floor(id));
  }
}

}  // namespace

// Two bytes of options, the training texts up to a zero byte, the test texts. What is accepted is whole ids.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const sluice::examples::TextOptions options{.vocabulary = 3 + data[0], .length = 1 + data[1] % 16};
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::string_view training = text.substr(0, text.find('\0'));
  const std::string_view testing = text.substr(std::min(training.size() + 1, text.size()));
  sluice::examples::Texts texts;
  try {
    texts = sluice::examples::ParseTexts(training, testing, "input", options);
  } catch (const sluice::Error& error) {
    SLUICE_CHECK(error.code() == sluice::ErrorCode::kDataLoss) << error.what();
    return 0;
  }
  SLUICE_CHECK(texts.vocabulary >= 2 && texts.vocabulary <= options.vocabulary) << texts.vocabulary;
  SLUICE_CHECK(texts.train->num_classes() == texts.test->num_classes());
  CheckWhole(*texts.train, options, texts.vocabulary, training);
  CheckWhole(*texts.test, options, texts.vocabulary, testing);
  return 0;
}
