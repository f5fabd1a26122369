// Data sets that are generated from a seed, for machines without downloads. A sample and its class are a
// function of (seed, subset, index) alone.
#pragma once

#include <cstdint>
#include <memory>

#include "sluice/dataset.h"

namespace sluice {

// In all functions, count < 0 means the default of the subset. They throw Error: kInvalidArgument for a count
// of 0 or above 2^40, kResourceExhausted when there is not enough memory for the samples.

// Digits in ten classes, drawn as if by hand, [1, 28, 28]. A linear model stays below 93 % on the test set.
inline constexpr int64_t kDefaultTrainDigits = 20'000;
inline constexpr int64_t kDefaultTestDigits = 4'000;
std::shared_ptr<const ImageDataset> SyntheticDigits(Subset subset, uint64_t seed = 0, int64_t count = -1);

// Figures in ten classes (disc, ring, square, frame, triangle, cross, star, crescent, bars, dots), in the
// shape of CIFAR-10, [3, 32, 32]. Place, size, direction, colours, background and noise do not depend on the
// class, so that a linear model learns nothing (10 % right), while LeNet gets above 70 % in five epochs of
// Adam.
inline constexpr int64_t kDefaultTrainPictures = 20'000;
inline constexpr int64_t kDefaultTestPictures = 4'000;
std::shared_ptr<const ImageDataset> SyntheticPictures(Subset subset, uint64_t seed = 0, int64_t count = -1);

// Short texts in four classes, as token ids [kSyntheticTextLength]: 8 to 24 words, then padding with
// kPaddingToken. Words are 1 to kSyntheticVocabulary - 1. A text has one word from each of two groups among
// filler words. A group has four meanings with eight synonyms each, and the class is the sum of the two
// meanings modulo 4. So no single word determines the class: a linear model over word counts does not learn,
// an embedding with one hidden layer after the mean does.
inline constexpr int64_t kSyntheticTextLength = 24;
inline constexpr int64_t kSyntheticVocabulary = 256;
inline constexpr int32_t kPaddingToken = 0;
inline constexpr int64_t kDefaultTrainTexts = 20'000;
inline constexpr int64_t kDefaultTestTexts = 4'000;
std::shared_ptr<const ArrayDataset> SyntheticText(Subset subset, uint64_t seed = 0, int64_t count = -1);

}  // namespace sluice
