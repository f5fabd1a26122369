// Vocabulary: the tokens by id, and the ids by token. Invariant: tokens_ begins with the three names below
// and holds each token once; ids_ has every one of tokens_.
#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"
#include "sluice/corpus.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// As the Penn Treebank's files write the second, and language models the third.
constexpr std::array<const char*, 3> kNames = {"<pad>", "<unk>", "<eos>"};

[[noreturn]] void ThrowInvalid(const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, StrCat("Vocabulary: ", why));
}

}  // namespace

void Vocabulary::Add(std::string token) {
  ids_.emplace(token, static_cast<int32_t>(tokens_.size()));
  tokens_.push_back(std::move(token));
}

Vocabulary::Vocabulary(const Corpus& corpus, const VocabularyOptions& options) {
  constexpr int64_t kMost = int64_t{1} << 24;  // ids travel as floats
  if (options.min_count < 0)
    ThrowInvalid(StrCat("min_count is ", options.min_count, "; it must be at least 0"));
  if (options.max_size < 0 || (options.max_size > 0 && options.max_size <= 3)) {
    ThrowInvalid(
        StrCat("max_size is ", options.max_size,
               "; padding, the unknown token and the end take three ids: it must be at least 4, or 0 "
               "for no bound"));
  }
  for (const char* name : kNames) Add(name);
  std::unordered_map<std::string_view, int64_t> counts;
  for (const auto& sentence : corpus.sentences)
    for (const std::string& token : sentence) {
      if (token.empty() || token.find('\n') != std::string::npos)
        ThrowInvalid(StrCat("the token '", StrPrintable(token), "' is empty or has a line end"));
      ++counts[token];
    }
  std::vector<std::pair<int64_t, std::string_view>> tokens;  // the count, negated
  for (const auto& [token, count] : counts)
    if (count >= options.min_count && !ids_.contains(token)) tokens.emplace_back(-count, token);
  std::ranges::sort(tokens);
  const int64_t most = options.max_size > 0 ? std::min(options.max_size, kMost) : kMost;
  for (const auto& [count, token] : tokens) {
    if (size() == most) break;
    Add(std::string(token));
  }
}

int32_t Vocabulary::Id(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() || found->second == kPadding ? kUnknown : found->second;
}

const std::string& Vocabulary::Token(int32_t id) const {
  if (id < 0 || id >= size()) ThrowInvalid(StrCat("there is no token ", id, "; ids are 0 to ", size() - 1));
  return tokens_[static_cast<size_t>(id)];
}

std::string Vocabulary::ToText() const {
  return StrJoin(tokens_, "\n") + "\n";
}

Vocabulary Vocabulary::FromText(std::string_view text) {
  const auto refuse = [](const auto&... why) {
    throw Error(ErrorCode::kDataLoss, StrCat("this is no vocabulary: ", why...));
  };
  if (!text.ends_with('\n')) refuse("its last line does not end");
  text.remove_suffix(text.empty() ? 0 : 1);
  Vocabulary vocabulary;
  for (std::string& token : StrSplit(text, '\n')) {
    if (token.empty() || vocabulary.ids_.contains(token))
      refuse("line ", vocabulary.size() + 1, " is ", token.empty() ? "empty" : "there twice");
    vocabulary.Add(std::move(token));
  }
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (vocabulary.tokens_.size() <= i || vocabulary.tokens_[i] != kNames[i])
      refuse("line ", i + 1, " is not ", kNames[i]);
  }
  return vocabulary;
}

}  // namespace sluice
