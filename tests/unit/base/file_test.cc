// Tests base/file.h: files are written whole or not at all, whatever fails on the way, and readers see one
// whole version.
#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

class File : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "sluice-file-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ / name; }
  std::string Contents(const std::string& path) const {
    const Result<Buffer> buffer = ReadFile(path, 1 << 20);
    return buffer ? std::string(AsText(buffer.value().bytes())) : "failed: " + buffer.failure().message;
  }
  size_t FilesInFolder() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  fs::path folder_;
};

TEST_F(File, PiecesAreWrittenInOrderAndReadBack) {
  const std::string zeros("\0\r\n\0", 4);
  ASSERT_TRUE(WriteFileAtomically(Path("a"), {AsBytes("head "), Bytes(), AsBytes(zeros), AsBytes("tail")}));
  std::ifstream file(Path("a"), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_EQ(text, "head " + zeros + "tail");
  EXPECT_EQ(Contents(Path("a")), text);
  EXPECT_EQ(FilesInFolder(), 1u);
}

TEST_F(File, AnEmptyFileIsAFile) {
  ASSERT_TRUE(WriteFileAtomically(Path("empty"), {}));
  const Result<Buffer> buffer = ReadFile(Path("empty"), 0);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer.value().size(), 0u);
}

TEST_F(File, PartsAreReadByOffset) {
  ASSERT_TRUE(WriteFileAtomically(Path("a"), {AsBytes("0123456789")}));
  const Result<RandomAccessFile> opened = RandomAccessFile::Open(Path("a"));
  ASSERT_TRUE(opened.ok());
  const RandomAccessFile& file = opened.value();
  EXPECT_EQ(file.size(), 10u);
  EXPECT_EQ(file.path(), Path("a"));
  std::vector<std::thread> readers;  // no shared place in the file
  for (size_t i = 0; i < 4; ++i) {
    readers.emplace_back([&file, i] {
      char part[3];
      for (int round = 0; round < 500; ++round) {
        ASSERT_TRUE(file.ReadAt(2 * i, std::as_writable_bytes(std::span(part))));
        ASSERT_EQ(std::string_view(part, 3), std::string_view("0123456789").substr(2 * i, 3));
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_TRUE(file.ReadAt(10, {}));
  fs::resize_file(Path("a"), 4);
  char part[3];
  const Status cut = file.ReadAt(2, std::as_writable_bytes(std::span(part)));
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.failure().code, ErrorCode::kDataLoss);
  EXPECT_NE(cut.failure().message.find("has 4 bytes and had 10 when it was opened"), std::string::npos)
      << cut.failure().message;
  EXPECT_EQ(RandomAccessFile::Open(Path("none")).failure().code, ErrorCode::kNotFound);
  EXPECT_EQ(RandomAccessFile::Open(folder_).failure().code, ErrorCode::kInvalidArgument);
}

TEST_F(File, TheLimitIsExact) {
  ASSERT_TRUE(WriteFileAtomically(Path("a"), {AsBytes("12345")}));
  EXPECT_TRUE(ReadFile(Path("a"), 5).ok());
  const Result<Buffer> longer = ReadFile(Path("a"), 4);
  ASSERT_FALSE(longer.ok());
  EXPECT_EQ(longer.failure().code, ErrorCode::kResourceExhausted);
}

TEST_F(File, WhatCannotBeReadIsNamed) {
  const Result<Buffer> missing = ReadFile(Path("missing"), 10);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.failure().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.failure().message.find("missing"), std::string::npos);
  const Result<Buffer> folder = ReadFile(folder_, 10);
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.failure().code, ErrorCode::kInvalidArgument);
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(ReadFile(Path("pipe"), 10).ok()) << "a pipe without a writer must not block";
}

TEST_F(File, AnEmptyPathIsNamedAsSuch) {
  const char* const why = "the path of the file is empty";
  const Status written = WriteFileAtomically("", {});
  ASSERT_FALSE(written);
  EXPECT_NE(written.failure().message.find(why), std::string::npos) << written.failure().message;
  EXPECT_NE(Contents("").find(why), std::string::npos) << Contents("");
}

TEST_F(File, AFailureLeavesTheOldFileAndNoTemporaryOne) {
  const Status no_folder = WriteFileAtomically(Path("no/such/folder"), {AsBytes("x")});
  ASSERT_FALSE(no_folder.ok());
  EXPECT_EQ(no_folder.failure().code, ErrorCode::kNotFound);
  EXPECT_NE(no_folder.failure().message.find("no/such/folder"), std::string::npos);
  fs::create_directory(Path("taken"));
  EXPECT_FALSE(WriteFileAtomically(Path("taken"), {AsBytes("x")}).ok());
  EXPECT_FALSE(WriteFileAtomically("/dev/null", {AsBytes("x")}).ok()) << "a device must not be replaced";
  EXPECT_EQ(FilesInFolder(), 1u);
}

// A system that has no files without names, or does not let them get one.
class Refusing final : public UnnamedFiles {
 public:
  explicit Refusing(bool opens) : opens_(opens) {}
  int Open(const std::string& folder) const override { return opens_ ? UnnamedFiles::Open(folder) : -1; }
  bool Link(int, const std::string&) const override { return false; }

 private:
  const bool opens_;
};

TEST_F(File, WhereNamelessFilesAreRefusedANamedOneIsWritten) {
  for (const bool opens : {true, false}) {
    SCOPED_TRACE(opens);
    const std::string path = Path(opens ? "no link" : "no nameless file");
    const Bytes pieces[] = {AsBytes("head "), AsBytes("tail")};
    for (int again = 0; again < 2; ++again) {
      const Status status = WriteFileAtomically(path, pieces, Refusing(opens));
      EXPECT_TRUE(status.ok()) << status.failure().message;
      EXPECT_EQ(Contents(path), "head tail");
    }
    EXPECT_TRUE(HeldFileNames(60s).held());  // they are given back
    const Status no_folder = WriteFileAtomically(Path("no/such/folder"), pieces, Refusing(opens));
    ASSERT_FALSE(no_folder.ok());
    EXPECT_EQ(no_folder.failure().code, ErrorCode::kNotFound);
    EXPECT_NE(no_folder.failure().message.find("no/such/folder'"), std::string::npos);
  }
  EXPECT_EQ(FilesInFolder(), 2u) << "temporary files are left";
}

TEST_F(File, ANamedFileThatCannotBeRenamedIsRemoved) {
  fs::create_directory(Path("taken"));
  // The folder takes the target's place after the check: what the rename then meets.
  class Meddling final : public UnnamedFiles {
   public:
    explicit Meddling(std::string folder) : folder_(std::move(folder)) {}
    int Open(const std::string&) const override {
      fs::create_directories(folder_);
      return -1;
    }

   private:
    const std::string folder_;
  };
  const Bytes piece = AsBytes("x");
  const Status status = WriteFileAtomically(Path("new"), std::span(&piece, 1), Meddling(Path("new/inside")));
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(FilesInFolder(), 2u) << "the temporary file is left";
}

// As `ulimit -f` has it; without a word of ours SIGXFSZ would end the process. A file that has its name while
// it is written must not take the old one's place either.
TEST_F(File, TheLimitOfFileSizesIsAnError) {
  const UnnamedFiles usual;
  const Refusing refusing(false);
  const std::string text(10'000, 'x');
  const Bytes piece = AsBytes(text);
  ASSERT_TRUE(WriteFileAtomically(Path("a"), {AsBytes("old")}));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{4096, before.rlim_max};
  for (const UnnamedFiles* unnamed_files : {&usual, static_cast<const UnnamedFiles*>(&refusing)}) {
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const Status status = WriteFileAtomically(Path("a"), std::span(&piece, 1), *unnamed_files);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.failure().code, ErrorCode::kResourceExhausted);
    EXPECT_NE(status.failure().message.find("ulimit -f"), std::string::npos) << status.failure().message;
    EXPECT_NE(status.failure().message.find("'" + Path("a") + "'"), std::string::npos)
        << status.failure().message;
    EXPECT_EQ(Contents(Path("a")), "old");
    EXPECT_EQ(FilesInFolder(), 1u);
  }
}

TEST_F(File, ALinkIsFollowed) {
  ASSERT_TRUE(WriteFileAtomically(Path("real"), {AsBytes("old")}));
  fs::create_symlink(Path("real"), Path("link"));
  ASSERT_TRUE(WriteFileAtomically(Path("link"), {AsBytes("new")}));
  EXPECT_TRUE(fs::is_symlink(Path("link")));
  EXPECT_EQ(Contents(Path("real")), "new");
}

TEST_F(File, WhileNamesAreHeldNoFileHasATemporaryOne) {
  ASSERT_TRUE(WriteFileAtomically(Path("saved"), {AsBytes("first")}));
  std::atomic<bool> over = false;
  std::thread writer([&] {
    while (!over) EXPECT_TRUE(WriteFileAtomically(Path("saved"), {AsBytes("again")}));
  });
  for (int i = 0; i < 200; ++i) {
    const HeldFileNames names(60s);
    ASSERT_TRUE(names.held());
    EXPECT_EQ(FilesInFolder(), 1u);
  }
  over = true;
  writer.join();
}

TEST_F(File, ReadersSeeOneWholeVersionWhileWritersCompete) {
  const std::vector<std::string> versions = {std::string(50'000, 'a'), std::string(70'000, 'b')};
  ASSERT_TRUE(WriteFileAtomically(Path("shared"), {AsBytes(versions[0])}));
  std::vector<std::thread> writers;
  for (const std::string& version : versions) {
    writers.emplace_back([&] {
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(WriteFileAtomically(Path("shared"), {AsBytes(version)}));
    });
  }
  for (int i = 0; i < 100; ++i) {
    const std::string seen = Contents(Path("shared"));
    EXPECT_TRUE(seen == versions[0] || seen == versions[1]) << seen.size() << " bytes";
  }
  for (auto& writer : writers) writer.join();
  EXPECT_EQ(FilesInFolder(), 1u);
}

}  // namespace
}  // namespace sluice
