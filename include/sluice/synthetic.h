// Data sets made up from a seed, for machines without any download. A sample is a function of (seed, subset,
// index) alone, its class included.
#pragma once

#include <cstdint>
#include <memory>

#include "sluice/dataset.h"

namespace sluice {

// All take count < 0 for the subset's default and throw Error: kInvalidArgument for count 0;
// kResourceExhausted where there is no memory for so many.

// Ten classes of hand-drawn digits, [1, 28, 28]. A linear model stays below 93 % on the test set.
inline constexpr int64_t kDefaultTrainDigits = 20'000;
inline constexpr int64_t kDefaultTestDigits = 4'000;
std::shared_ptr<const ImageDataset> SyntheticDigits(Subset subset, uint64_t seed = 0, int64_t count = -1);

// In CIFAR-10's shape: ten classes of figures (disc, ring, square, frame, triangle, cross, star, crescent,
// bars, dots), [3, 32, 32]. Place, size, direction, colours, background and noise tell nothing of the class,
// so that a linear model learns nothing (10 % right), where LeNet gets above 70 % in five epochs of Adam.
inline constexpr int64_t kDefaultTrainPictures = 20'000;
inline constexpr int64_t kDefaultTestPictures = 4'000;
std::shared_ptr<const ImageDataset> SyntheticPictures(Subset subset, uint64_t seed = 0, int64_t count = -1);

// Short texts as token ids, [kSyntheticTextLength]: 8 to 24 words, then padding of kPaddingToken; words are 1
// to kSyntheticVocabulary - 1. Four classes. A text has one word of each of two groups among filler words; a
// group has four meanings of eight synonyms each, and the class is the sum of the two meanings modulo 4. So
// no word tells anything alone: a linear model over counts of words does not learn, an embedding with one
// hidden layer behind the mean does.
inline constexpr int64_t kSyntheticTextLength = 24;
inline constexpr int64_t kSyntheticVocabulary = 256;
inline constexpr int32_t kPaddingToken = 0;
inline constexpr int64_t kDefaultTrainTexts = 20'000;
inline constexpr int64_t kDefaultTestTexts = 4'000;
std::shared_ptr<const ArrayDataset> SyntheticText(Subset subset, uint64_t seed = 0, int64_t count = -1);

}  // namespace sluice
