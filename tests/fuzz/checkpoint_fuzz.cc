#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "train/memory/callback_memory.h"
#include "train/memory/checkpoint_metadata.h"
#include "train/memory/epoch_sums.h"

namespace {

using sluice::Error;
using sluice::ErrorCode;
using sluice::FileMetadata;
using sluice::LoadedCheckpoint;
using sluice::train::Best;
using sluice::train::EpochSums;

template <typename Read>
bool Accepts(Read read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    SLUICE_CHECK(error.code() == ErrorCode::kDataLoss) << error.what();
    return false;
  }
}

// Checks that text which a callback's parser accepts is written and parsed again without a change.
void CheckMemory(const std::string& text) {
  const auto positions = sluice::train::ParsePositions(text);
  if (positions)
    SLUICE_CHECK(sluice::train::ParsePositions(sluice::train::ToText(*positions)) == positions) << text;
  const auto best = Best::Parse(text);
  if (best) {
    const auto again = Best::Parse(best->ToText());
    SLUICE_CHECK(again && again->ToText() == best->ToText()) << text;
  }
  EpochSums sums;
  if (!Accepts([&] { sums = EpochSums::Parse(text); })) return;
  const std::string memory = sums.ToText();
  SLUICE_CHECK(Accepts([&] { sums = EpochSums::Parse(memory); })) << memory;
  SLUICE_CHECK(sums.ToText() == memory) << memory;
}

void CheckCheckpoint(const LoadedCheckpoint& loaded) {
  if (!loaded.has_position) return;
  SLUICE_CHECK(loaded.step >= loaded.next.step && loaded.next.step >= 0 && loaded.next.epoch >= 0);
  const FileMetadata written = sluice::train::MetadataOf(loaded);
  LoadedCheckpoint again;
  again.next = loaded.next;
  sluice::train::ReadMetadata("input", written, &again);
  SLUICE_CHECK(sluice::train::MetadataOf(again) == written);
  SLUICE_CHECK(sluice::DifferenceOf(loaded.batching, again.batching).empty());
  for (const auto& [name, text] : loaded.memory) CheckMemory(text);
}

}  // namespace

// The input is a line "EPOCH STEP", as in the file's name, and then a line "name<TAB>text" for each entry of
// the metadata.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<std::string> lines =
      sluice::StrSplit(std::string_view(reinterpret_cast<const char*>(data), size), '\n');
  const size_t space = lines[0].find(' ');
  if (space == std::string::npos) return 0;
  const auto epoch = sluice::ParseInt(std::string_view(lines[0]).substr(0, space)),
             step = sluice::ParseInt(std::string_view(lines[0]).substr(space + 1));
  if (!epoch || !step || *epoch < 0 || *step < 0) return 0;
  FileMetadata metadata;
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t tab = lines[i].find('\t');
    if (tab != std::string::npos) metadata[lines[i].substr(0, tab)] = lines[i].substr(tab + 1);
  }
  LoadedCheckpoint loaded;
  loaded.next = {*epoch, *step};
  if (Accepts([&] { sluice::train::ReadMetadata("input", metadata, &loaded); })) CheckCheckpoint(loaded);
  return 0;
}
