// The decoder for PNG, on libpng.
//
// libpng reports an error by longjmp, which runs no destructors. So the functions that call it and may be
// left that way (ReadHeader, ReadPixels) have no objects with destructors; their caller owns all memory.
// DecodeImage calls DecodePng on the threads of the DataLoader; every call has a Reader of its own.
#include <png.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "data/images/formats.h"

namespace sluice::images {
namespace {

constexpr uint32_t kLongestSide = 1'000'000;

// The argument of libpng's callbacks.
struct Source {
  Bytes rest;
  char error[128] = "";
  bool out_of_memory = false;
};

png_voidp Allocate(png_structp png, png_alloc_size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) static_cast<Source*>(png_get_mem_ptr(png))->out_of_memory = true;
  return memory;
}

void Free(png_structp, png_voidp memory) {
  std::free(memory);
}

void ReadSome(png_structp png, png_bytep into, size_t size) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (size > source->rest.size()) png_error(png, "it ends too early");
  std::memcpy(into, source->rest.data(), size);
  source->rest = source->rest.subspan(size);
}

[[noreturn]] void NoteError(png_structp png, png_const_charp message) {
  auto* source = static_cast<Source*>(png_get_error_ptr(png));
  std::snprintf(source->error, sizeof(source->error), "%s", message);
  png_longjmp(png, 1);
}

void IgnoreWarning(png_structp, png_const_charp) {}

// Reads up to the first pixel, and asks libpng for 8 bits per value in 1 or 3 channels. Returns false
// after an error.
bool ReadHeader(png_structp png, png_infop info) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_user_limits(png, kLongestSide, kLongestSide);
  // Comments, colour profiles and the like are passed over: libpng would take memory for all bytes that such
  // a chunk claims to have, up to 2 GiB, before it reads the first.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(png, info);
  png_set_expand(png);
  png_set_scale_16(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  return true;
}

bool ReadPixels(png_structp png, png_bytepp rows) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_read_image(png, rows);
  png_read_end(png, nullptr);
  return true;
}

class Reader {
 public:
  explicit Reader(Bytes bytes) : source_{bytes} {
    png_ = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &source_, NoteError, IgnoreWarning, &source_,
                                    Allocate, Free);
    if (png_ == nullptr) return;
    info_ = png_create_info_struct(png_);
    png_set_read_fn(png_, &source_, ReadSome);
  }
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  bool ok() const { return info_ != nullptr; }
  png_structp png() const { return png_; }
  png_infop info() const { return info_; }
  const Source& source() const { return source_; }

 private:
  Source source_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

bool IsPng(Bytes bytes) {
  constexpr uint8_t kSignature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  return bytes.size() >= sizeof(kSignature) && std::memcmp(bytes.data(), kSignature, sizeof(kSignature)) == 0;
}

Result<Image> DecodePng(Bytes bytes, std::string_view origin, uint64_t max_bytes) {
  const Reader reader(bytes);
  if (!reader.ok()) return NoMemoryFor(origin);
  const auto refuse = [&] {
    if (reader.source().out_of_memory) return NoMemoryFor(origin);
    return Fail(ErrorCode::kDataLoss, "'", origin, "' is a damaged PNG, near byte ",
                bytes.size() - reader.source().rest.size(), " of ", bytes.size(), ": ",
                reader.source().error);
  };
  if (!ReadHeader(reader.png(), reader.info())) return refuse();
  Image image;
  if (Status status = MakeRoom(png_get_image_height(reader.png(), reader.info()),
                               png_get_image_width(reader.png(), reader.info()),
                               png_get_channels(reader.png(), reader.info()), origin, max_bytes, &image);
      !status)
    return status.failure();
  const size_t row = png_get_rowbytes(reader.png(), reader.info());
  SLUICE_CHECK(row * static_cast<size_t>(image.height) == image.pixels.size()) << row;
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < image.height; ++y)
    rows.push_back(image.pixels.data() + static_cast<size_t>(y) * row);
  if (!ReadPixels(reader.png(), rows.data())) return refuse();
  return image;
}

}  // namespace sluice::images
