#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "data/synthetic_count.h"
#include "sluice/synthetic.h"

namespace sluice {
namespace {

constexpr int64_t kMeanings = 4;  // per group; also the number of classes
constexpr int64_t kSynonyms = 8;
constexpr int64_t kGroups = 2;
constexpr int64_t kFirstFiller = 1 + kGroups * kMeanings * kSynonyms;
constexpr int64_t kShortest = 8;

// Draws a word of `group` with this meaning.
int64_t Word(int64_t group, int64_t meaning, Rng* rng) {
  return 1 + (group * kMeanings + meaning) * kSynonyms + static_cast<int64_t>(rng->Below(kSynonyms));
}

// Draws a filler word. The distribution is log-uniform: few words are frequent and most are rare.
int64_t Filler(Rng* rng) {
  constexpr int64_t kFillers = kSyntheticVocabulary - kFirstFiller;
  const double rank = std::pow(static_cast<double>(kFillers + 1), rng->Uniform());
  return kFirstFiller + std::min(static_cast<int64_t>(rank) - 1, kFillers - 1);
}

// Writes one text and returns its class.
int32_t Write(Rng* rng, std::span<float> text) {
  const auto length = kShortest + static_cast<int64_t>(rng->Below(kSyntheticTextLength - kShortest + 1));
  const auto words = text.first(static_cast<size_t>(length));
  for (float& word : words) word = static_cast<float>(Filler(rng));
  int64_t sum = 0;
  const std::vector<uint64_t> places = rng->Permutation(words.size());
  for (int64_t group = 0; group < kGroups; ++group) {
    const auto meaning = static_cast<int64_t>(rng->Below(kMeanings));
    sum += meaning;
    words[places[static_cast<size_t>(group)]] = static_cast<float>(Word(group, meaning, rng));
  }
  std::fill(text.begin() + length, text.end(), static_cast<float>(kPaddingToken));
  return static_cast<int32_t>(sum % kMeanings);
}

}  // namespace

std::shared_ptr<const ArrayDataset> SyntheticText(Subset subset, uint64_t seed, int64_t count) {
  const size_t samples = RequiredCount("SyntheticText", count,
                                       subset == Subset::kTrain ? kDefaultTrainTexts : kDefaultTestTexts);
  constexpr auto kLength = static_cast<size_t>(kSyntheticTextLength);
  auto tokens = RoomForSamples<float>("SyntheticText", samples, kLength);
  auto labels = RoomForSamples<int32_t>("SyntheticText", samples, 1);
  for (size_t index = 0; index < labels.size(); ++index) {
    Rng rng(DeriveSeed(seed, static_cast<uint64_t>(subset), index));
    labels[index] = Write(&rng, std::span(tokens).subspan(index * kLength, kLength));
  }
  return std::make_shared<ArrayDataset>(Shape{kSyntheticTextLength}, std::move(tokens), std::move(labels),
                                        kMeanings);
}

}  // namespace sluice
