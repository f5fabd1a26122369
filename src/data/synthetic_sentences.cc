// The language of SyntheticSentences:
//
//   sentence = subject, verb, object, often an adverb
//   subject, object = article, sometimes an adjective, noun, sometimes a clause
//   clause = "that", verb, object; or "that", subject, verb
//
// A verb agrees in number with its subject, which a clause may have moved away from it, and has objects of a
// quarter of the nouns. A sentence is a function of (seed, subset, index) alone.
#include <array>

#include "base/rng.h"
#include "data/synthetic_count.h"
#include "sluice/corpus.h"

namespace sluice {
namespace {

constexpr std::array kNouns = {"dog",   "cat",    "bird",  "horse",  "farmer", "sailor", "doctor", "teacher",
                               "child", "artist", "river", "ship",   "garden", "letter", "song",   "book",
                               "tree",  "stone",  "lamp",  "window", "bridge", "apple",  "storm",  "cloud"};
constexpr std::array kVerbs = {"see",   "hear",  "like",     "follow", "carry", "draw",  "find",  "watch",
                               "paint", "build", "remember", "want",   "bring", "touch", "leave", "need"};
constexpr std::array kAdjectives = {"old",  "young", "small", "large", "quiet",
                                    "loud", "red",   "green", "cold",  "warm"};
constexpr std::array kAdverbs = {"often", "never", "today", "slowly", "here", "again"};

// The plural of children is like the others', so that a word's number can be seen.
std::string Inflected(const char* word, bool ends_in_s) {
  return ends_in_s ? StrCat(word, "s") : std::string(word);
}

class Writer {
 public:
  explicit Writer(Rng rng) : rng_(rng) {}

  std::vector<std::string> Sentence() {
    const bool plural = Phrase(rng_.Below(kNouns.size()), 0);
    Predicate(plural, 0);
    if (Chance(0.4)) Add(kAdverbs[rng_.Below(kAdverbs.size())]);
    return std::move(words_);
  }

 private:
  static constexpr int kMostClauses = 2;  // within each other

  bool Chance(double probability) { return rng_.Uniform() < probability; }
  void Add(std::string word) { words_.push_back(std::move(word)); }

  // Writes a noun with what belongs to it. Returns whether it is plural.
  bool Phrase(size_t noun, int depth) {
    const bool plural = Chance(0.4);
    Add(plural ? (Chance(0.5) ? "the" : "some") : (Chance(0.5) ? "the" : "every"));
    if (Chance(0.3)) Add(kAdjectives[rng_.Below(kAdjectives.size())]);
    Add(Inflected(kNouns[noun], plural));
    if (depth < kMostClauses && Chance(0.25)) Clause(noun, plural, depth + 1);
    return plural;
  }

  void Clause(size_t noun, bool plural, int depth) {
    Add("that");
    if (Chance(0.5)) return Predicate(plural, depth);
    const bool subject_plural = Phrase(rng_.Below(kNouns.size()), kMostClauses);
    Verb(noun % (kVerbs.size() / 4) + 4 * rng_.Below(4), subject_plural);  // one that has such objects
  }

  void Predicate(bool plural, int depth) {
    const size_t verb = rng_.Below(kVerbs.size());
    Verb(verb, plural);
    Phrase(verb % 4 + 4 * rng_.Below(kNouns.size() / 4), depth);
  }

  void Verb(size_t verb, bool plural) { Add(Inflected(kVerbs[verb], !plural)); }

  Rng rng_;
  std::vector<std::string> words_;
};

}  // namespace

Corpus SyntheticSentences(Subset subset, uint64_t seed, int64_t count) {
  const size_t sentences = RequiredCount(
      "SyntheticSentences", count, subset == Subset::kTrain ? kDefaultTrainSentences : kDefaultTestSentences);
  Corpus corpus{.sentences = RoomForSamples<std::vector<std::string>>("SyntheticSentences", sentences, 1)};
  for (size_t i = 0; i < sentences; ++i)
    corpus.sentences[i] = Writer(Rng(DeriveSeed(seed, static_cast<uint64_t>(subset), i))).Sentence();
  return corpus;
}

}  // namespace sluice
