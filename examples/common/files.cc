#include "common/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>

#include "common/text.h"
#include "sluice/error.h"

namespace sluice::examples {

std::string ReadFile(const std::string& path, uint64_t max_bytes) {
  const auto refuse = [&](ErrorCode code, const auto&... why) {
    throw Error(code, StrCat("cannot read '", path, "': ", why...));
  };
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found)
    refuse(ErrorCode::kNotFound, "there is no such file; check the path");
  if (!error && !std::filesystem::is_regular_file(status))
    refuse(ErrorCode::kInvalidArgument, "it is no file");
  if (access(path.c_str(), R_OK) != 0)
    refuse(errno == EACCES ? ErrorCode::kPermissionDenied : ErrorCode::kUnavailable, std::strerror(errno));
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) refuse(ErrorCode::kUnavailable, error.message());
  if (size > max_bytes)
    refuse(ErrorCode::kResourceExhausted, "it has ", size, " bytes; at most ", max_bytes, " are read");
  std::string contents;
  try {
    contents.resize(size);
  } catch (const std::bad_alloc&) {
    refuse(ErrorCode::kResourceExhausted, "no memory for its ", size, " bytes");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file.read(contents.data(), static_cast<std::streamsize>(size)))
    refuse(ErrorCode::kUnavailable, "it could not be read to its end");
  return contents;
}

void WriteFile(const std::string& path, const std::string& text) {
  const std::string temporary = StrCat(path, ".", getpid(), ".tmp");
  std::ofstream file(temporary, std::ios::binary);
  file << text;
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(temporary, path, error);
  if (file && !error) return;
  std::filesystem::remove(temporary, error);
  throw Error(ErrorCode::kUnavailable, StrCat("cannot write '", path, "'; check its folder"));
}

}  // namespace sluice::examples
