#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/strings.h"
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

bool Same(const sluice::ArrayDataset& left, const sluice::ArrayDataset& right) {
  for (int64_t i = 0; i < left.size(); ++i) {
    if (left.Label(i) != right.Label(i) || !std::ranges::equal(left.sample(i), right.sample(i))) return false;
  }
  return left.size() == right.size() && left.num_classes() == right.num_classes();
}

// Checks that a vectorizer that was saved and loaded encodes the same texts as the same numbers.
void CheckSaved(const sluice::examples::Texts& texts, std::string_view training, std::string_view testing) {
  const auto metadata = sluice::examples::MetadataOf(texts.vectorizer);
  for (const auto& [name, text] : metadata) SLUICE_CHECK(sluice::IsUtf8(text)) << name;
  const sluice::examples::SavedVectorizer saved{sluice::examples::VectorizerOf(metadata, "saved"), "saved"};
  SLUICE_CHECK(saved.vectorizer == texts.vectorizer);
  const auto again = sluice::examples::ParseTexts(training, testing, "input", saved);
  SLUICE_CHECK(Same(*again.train, *texts.train) && Same(*again.test, *texts.test));
}

}  // namespace

// The input is two bytes of options, the training texts up to a zero byte, and the test texts. If it is
// accepted, all samples must be valid ids.
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
  const int64_t ids = texts.vectorizer.vocabulary();
  SLUICE_CHECK(ids >= 2 && ids <= options.vocabulary) << ids;
  SLUICE_CHECK(texts.train->num_classes() == texts.test->num_classes());
  CheckWhole(*texts.train, options, ids, training);
  CheckWhole(*texts.test, options, ids, testing);
  CheckSaved(texts, training, testing);
  return 0;
}
