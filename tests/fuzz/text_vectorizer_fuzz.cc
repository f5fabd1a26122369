#include <algorithm>

#include "base/check.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "text_vectorizer.h"

// The input is a line with text_length, the labels up to a zero byte, and the vocabulary. If it is accepted,
// MetadataOf must write it again unchanged.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view length = text.substr(0, text.find('\n'));
  const std::string_view rest = text.substr(std::min(length.size() + 1, size));
  const std::string_view labels = rest.substr(0, rest.find('\0'));
  const std::string_view vocabulary = rest.substr(std::min(labels.size() + 1, rest.size()));
  const std::map<std::string, std::string> metadata = {{"text_length", std::string(length)},
                                                       {"labels", std::string(labels)},
                                                       {"vocabulary", std::string(vocabulary)}};
  sluice::examples::TextVectorizer vectorizer;
  try {
    vectorizer = sluice::examples::VectorizerOf(metadata, "input");
  } catch (const sluice::Error& error) {
    SLUICE_CHECK(error.code() == sluice::ErrorCode::kDataLoss) << error.what();
    return 0;
  }
  SLUICE_CHECK(!vectorizer.labels.empty() && vectorizer.length > 0);
  auto written = sluice::examples::MetadataOf(vectorizer);
  SLUICE_CHECK(sluice::ParseInt(written.at("text_length")) == sluice::ParseInt(length));
  written["text_length"] = length;  // the only entry with several spellings: "007" is 7
  SLUICE_CHECK(written == metadata);
  return 0;
}
