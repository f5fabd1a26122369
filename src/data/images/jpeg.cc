#include <turbojpeg.h>

#include <memory>

#include "data/images/formats.h"

namespace sluice::images {
namespace {

struct Destroy {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using Decompressor = std::unique_ptr<void, Destroy>;

}  // namespace

bool IsJpeg(Bytes bytes) {
  return bytes.size() >= 3 && bytes[0] == std::byte{0xff} && bytes[1] == std::byte{0xd8} &&
         bytes[2] == std::byte{0xff};
}

Result<Image> DecodeJpeg(Bytes bytes, std::string_view origin, uint64_t max_bytes) {
  const Decompressor handle(tjInitDecompress());
  if (!handle) return NoMemoryFor(origin);
  const auto refuse = [&] {
    const std::string_view why = tjGetErrorStr2(handle.get());
    // The library reports lack of memory by its message alone: the first text is libjpeg's, the second
    // its own.
    for (const std::string_view memory : {"Insufficient memory", "Memory allocation failure"}) {
      if (why.find(memory) != why.npos) return NoMemoryFor(origin);
    }
    return Fail(ErrorCode::kDataLoss, "'", origin, "' is a damaged JPEG of ", bytes.size(), " bytes: ", why);
  };
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  int width = 0, height = 0, subsampling = 0, colors = 0;
  if (tjDecompressHeader3(handle.get(), data, bytes.size(), &width, &height, &subsampling, &colors) != 0)
    return refuse();
  if (colors == TJCS_CMYK || colors == TJCS_YCCK) {
    return Fail(ErrorCode::kUnimplemented, "'", origin,
                "' is a JPEG in CMYK; grey and colour (RGB, YCbCr) are read: convert it");
  }
  const bool grey = colors == TJCS_GRAY;
  Image image;
  if (Status status = MakeRoom(height, width, grey ? 1 : 3, origin, max_bytes, &image); !status)
    return status.failure();
  // STOPONWARNING makes truncated and inconsistent data an error instead of grey pixels. LIMITSCANS refuses
  // progressive images with very many scans, which would take long to decode.
  const int flags = TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
  if (tjDecompress2(handle.get(), data, bytes.size(), image.pixels.data(), width, 0, height,
                    grey ? TJPF_GRAY : TJPF_RGB, flags) != 0)
    return refuse();
  return image;
}

}  // namespace sluice::images
