// Measures how fast each gradient compression encodes and decodes on one thread, compared with a memory copy.
//
// GB/s count the bytes of the float32 gradients, not of the encoded ones. Encoding reads gradient and
// residual and writes the residual. Decoding adds to a block that stays in the cache, as a server does when
// it sums a round. Everything runs on the main thread.
#include <gflags/gflags.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/buffer.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/strings.h"
#include "compression/codec.h"
#include "runtime/program_flags.h"
#include "sluice/error.h"

DEFINE_int64(elements, 25'000'000, "float32 elements in all; more than the caches hold");
DEFINE_int64(part_elements, 1 << 18, "elements of each part");
DEFINE_int32(repeats, 7, "medians are reported");
DEFINE_string(json, "", "write one object per line and type to this file");

namespace sluice {
namespace {

using compression::Encoded;

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Returns GB/s of float32: the median of --repeats runs of `work`, after one run as warm-up.
double RateOf(const std::function<void()>& work) {
  std::vector<double> seconds;
  for (int repeat = -1; repeat < FLAGS_repeats; ++repeat) {
    const double took = Seconds(work);
    if (repeat >= 0) seconds.push_back(took);
  }
  std::nth_element(seconds.begin(), seconds.begin() + FLAGS_repeats / 2, seconds.end());
  return 4e-9 * static_cast<double>(FLAGS_elements) / seconds[static_cast<size_t>(FLAGS_repeats / 2)];
}

class Gradients {
 public:
  Gradients() : values_(static_cast<size_t>(FLAGS_elements)), residual_(values_.size()) {
    Rng rng(1);
    std::vector<float> some(1 << 16);
    for (float& value : some) value = static_cast<float>(0.4 * rng.Normal());
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = some[(i * 7919) % some.size()];
  }

  double Copy() {
    return RateOf([&] { std::memcpy(residual_.data(), values_.data(), 4 * values_.size()); });
  }
  nlohmann::json Measure(const GradientCompression& how) {
    std::fill(residual_.begin(), residual_.end(), 0.0f);
    std::vector<std::vector<std::byte>> frames;
    ForParts(
        [&](size_t, size_t n) { frames.emplace_back(compression::EncodedBytes(how, DType::kFloat32, n)); });
    const double encode = RateOf([&] {
      auto frame = frames.begin();
      ForParts([&](size_t first, size_t n) {
        compression::Encode(how, DType::kFloat32, reinterpret_cast<const std::byte*>(values_.data() + first),
                            n, residual_.data() + first, (frame++)->data());
      });
    });
    const double decode = RateOf([&] {
      auto frame = frames.begin();
      ForParts([&](size_t, size_t n) { Decode({frame->data(), frame->size(), how.type}, n), ++frame; });
    });
    size_t bytes = 0;
    for (const auto& frame : frames) bytes += frame.size();
    return {{"type", Name(how.type)},
            {"share_of_bytes", static_cast<double>(bytes) / (4.0 * static_cast<double>(values_.size()))},
            {"encode_gb_per_sec", encode},
            {"decode_gb_per_sec", decode}};
  }

 private:
  void ForParts(const std::function<void(size_t first, size_t n)>& body) const {
    const auto most = static_cast<size_t>(FLAGS_part_elements);
    for (size_t first = 0; first < values_.size(); first += most)
      body(first, std::min(most, values_.size() - first));
  }
  static void Decode(const Encoded& part, size_t elements) {
    constexpr size_t kBlock = 2048;
    alignas(64) float block[kBlock] = {};
    for (size_t first = 0; first < elements; first += kBlock)
      compression::AddDecoded(part, DType::kFloat32, first, std::min(kBlock, elements - first), block);
    if (block[0] == 12345) std::abort();  // keeps the compiler from removing the loop
  }

  std::vector<float> values_, residual_;
};

void Run() {
  Gradients gradients;
  std::printf("GB/s of float32, one thread; a copy of memory: %.1f\n", gradients.Copy());
  std::printf("%-6s %15s %8s %8s\n", "type", "share of bytes", "encode", "decode");
  std::string lines;
  for (const Compression type : {Compression::k2Bit, Compression::k1Bit, Compression::kFloat16,
                                 Compression::kBFloat16, Compression::kTopK}) {
    const nlohmann::json line = gradients.Measure({.type = type});
    std::printf("%-6s %15.4f %8.2f %8.2f\n", std::string(Name(type)).c_str(),
                line["share_of_bytes"].get<double>(), line["encode_gb_per_sec"].get<double>(),
                line["decode_gb_per_sec"].get<double>());
    std::fflush(stdout);
    lines += line.dump() + "\n";
  }
  if (!FLAGS_json.empty()) WriteFileAtomically(FLAGS_json, {AsBytes(lines)}).OrThrow();
}

void RequireAtLeast(const char* flag, int64_t value, int64_t least) {
  if (value < least) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("flag --", flag, " is ", value, "; it must be at least ", least));
  }
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  try {
    sluice::runtime::ParseProgramFlags(argc, argv,
                                       "codec_bench: encoding and decoding of compressed gradients",
                                       sluice::runtime::RowsOfMachine);
    sluice::RequireAtLeast("elements", FLAGS_elements, 1);
    sluice::RequireAtLeast("part-elements", FLAGS_part_elements, 1);
    sluice::RequireAtLeast("repeats", FLAGS_repeats, 1);
    sluice::Run();
    return 0;
  } catch (const sluice::Error& error) {
    std::cerr << "codec_bench: " << error.what() << "\n";
    return 2;
  }
}
