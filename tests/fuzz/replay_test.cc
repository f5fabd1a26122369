// Runs one fuzzer's function over its corpus. A failed check ends the program.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

std::vector<std::vector<uint8_t>> Corpus() {
  std::vector<std::vector<uint8_t>> inputs;
  for (const auto& entry : std::filesystem::directory_iterator(SLUICE_CORPUS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

TEST(Fuzz, CorpusIsParsedOrRefused) {
  const auto inputs = Corpus();
  ASSERT_FALSE(inputs.empty()) << "no inputs in " << SLUICE_CORPUS;
  for (const auto& input : inputs) EXPECT_EQ(LLVMFuzzerTestOneInput(input.data(), input.size()), 0);
}

// Cuts each input after every one of its first 512 bytes, as truncated files and messages are cut.
TEST(Fuzz, EveryPrefixOfTheCorpusIsParsedOrRefused) {
  for (const auto& input : Corpus()) {
    for (size_t size = 0; size < std::min<size_t>(input.size(), 512); ++size) {
      const std::vector<uint8_t> prefix(input.begin(), input.begin() + static_cast<ptrdiff_t>(size));
      EXPECT_EQ(LLVMFuzzerTestOneInput(prefix.data(), prefix.size()), 0);
    }
  }
}

}  // namespace
