// Memory-mapped files, atomic writes, and digests.
#include "schema/files/files.h"

#include <array>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/schema/expect_error.h"
#include "tests/schema/temporary_folder.h"

namespace whence {
namespace {

namespace fs = std::filesystem;

// Returns bytes without a short period, so that bytes copied to a wrong position are detected.
std::string noise(std::size_t size) {
  std::string text(size, '\0');
  std::uint32_t state = 1;
  for (char& c : text) {
    state = state * 1664525 + 1013904223;
    c = static_cast<char>(state >> 24);
  }
  return text;
}

TEST(MappedFile, ReadsTheFileAndSlices) {
  const TemporaryFolder folder;
  write_file(folder / "a", "0123456789");
  const auto file = MappedFile::open(folder / "a");
  EXPECT_EQ(file->text(), "0123456789");
  const Bytes slice = file->slice(file, 3, 4);
  EXPECT_EQ(as_text(slice.in_memory().value()), "3456");
  EXPECT_EQ(slice.file(), folder / "a");
  EXPECT_EQ(slice.offset(), 3u);
  file->release(0, file->size());  // a hint to the kernel: the bytes stay readable
  EXPECT_EQ(file->text(), "0123456789");
  EXPECT_EQ(file->slice(file, 10, 0).size(), 0u);
  expect_error(Code::truncated_file, [&] { file->slice(file, 3, 8); });
  expect_error(Code::truncated_file, [&] { file->slice(file, 11, 0); });
  expect_error(Code::truncated_file, [&] { file->slice(file, 3, SIZE_MAX); });
}

TEST(MappedFile, ReportsUnreadableFiles) {
  const TemporaryFolder folder;
  write_file(folder / "empty", "");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_NE(expect_error(Code::missing_file, [&] { MappedFile::open(folder / "none"); }).find("none"),
            std::string::npos);
  expect_error(Code::missing_file, [&] { MappedFile::open(folder / "empty/below"); });
  expect_error(Code::empty_file, [&] { MappedFile::open(folder / "empty"); });
  expect_error(Code::wrong_kind, [&] { MappedFile::open(folder.path().string()); });
  expect_error(Code::wrong_kind, [&] { MappedFile::open(folder / "pipe"); });
}

TEST(AtomicFile, DoesNotChangeTheTargetBeforeCommit) {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("new");
    file.write(noise(1 << 20));
  }
  EXPECT_EQ(content_of(folder / "a"), "old");
  EXPECT_EQ(folder.file_count(), 1u);
  {
    AtomicFile file(folder / "a");
    file.write("ne");
    file.write("w");
    EXPECT_EQ(file.position(), 3u);
    file.commit();
  }
  EXPECT_EQ(content_of(folder / "a"), "new");
  EXPECT_EQ(folder.file_count(), 1u);
}

TEST(AtomicFile, PreservesModeAndLinks) {
  const TemporaryFolder folder;
  write_file(folder / "real", "old");
  fs::permissions(folder / "real", fs::perms::owner_read | fs::perms::owner_write | fs::perms::owner_exec);
  fs::create_symlink("real", folder / "link");
  write_file(folder / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(content_of(folder / "real"), "new");
  EXPECT_EQ(fs::status(folder / "real").permissions(), fs::perms::owner_all);
}

TEST(AtomicFile, AcceptsTheLongestFileName) {
  const TemporaryFolder folder;
  const std::string name(255, 'n');
  write_file(folder / name, "x");
  EXPECT_EQ(content_of(folder / name), "x");
}

TEST(AtomicFile, RefusesUnwritableTargets) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "sub");
  EXPECT_NE(expect_error(Code::cannot_write, [&] { write_file(folder / "sub", "x"); }).find("sub"), std::string::npos);
  EXPECT_NE(expect_error(Code::cannot_write, [&] { write_file(folder / "none/a", "x"); }).find("mkdir -p"),
            std::string::npos);
  EXPECT_EQ(folder.file_count(), 1u);
}

// /dev/full accepts no bytes, like a full disk. Devices are written to and never replaced.
TEST(AtomicFile, ReportsAFullDiskAndDoesNotReplaceDevices) {
  EXPECT_NE(expect_error(Code::cannot_write, [&] { write_file("/dev/full", "x"); }).find("free space"),
            std::string::npos);
  expect_error(Code::cannot_write, [&] { write_file("/dev/full", noise(1 << 20)); });
  write_file("/dev/null", "x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(AtomicFile, CopiesPartsOfFiles) {
  const TemporaryFolder folder;
  const std::string source = noise(3'000'001);
  write_file(folder / "source", source);
  const auto file = MappedFile::open(folder / "source");
  struct Row {
    std::size_t before, offset, size;  // bytes written before the part; the part
  };
  const Row rows[] = {{0, 0, 3'000'001},
                      {5, 0, 3'000'001},
                      {4096, 8192, 1'000'000},
                      {100, 4196, 1'000'000},
                      {7, 123'456, 789'012},
                      {0, 3'000'000, 1},
                      {3, 17, 100},
                      {0, 10, 0}};
  for (const Row& row : rows) {
    AtomicFile out(folder / "out");
    out.write(std::string(row.before, '-'));
    out.write(file->slice(file, row.offset, row.size));
    out.write("end");
    EXPECT_EQ(out.position(), row.before + row.size + 3);
    out.commit();
    EXPECT_TRUE(content_of(folder / "out") ==
                std::string(row.before, '-') + source.substr(row.offset, row.size) + "end")
        << row.before << " " << row.offset << " " << row.size;
  }
}

TEST(AtomicFile, CopiesFromTheMappingOfADeletedFile) {
  const TemporaryFolder folder;
  const std::string source = noise(100'000);
  write_file(folder / "source", source);
  const auto file = MappedFile::open(folder / "source");
  fs::remove(folder / "source");
  AtomicFile out(folder / "out");
  out.write(file->slice(file, 0, source.size()));
  out.commit();
  EXPECT_TRUE(content_of(folder / "out") == source);
}

TEST(AtomicFile, ReportsAShortenedSource) {
  const TemporaryFolder folder;
  write_file(folder / "source", noise(100'000));
  for (const std::uint64_t offset : {0u, 1u}) {
    const int fd = ::open((folder / "source").c_str(), O_RDONLY);
    expect_error(Code::truncated_file, [&] { AtomicFile(folder / "out").copy_from(fd, offset, 200'000); });
    ::close(fd);
  }
  EXPECT_FALSE(fs::exists(folder / "out"));
}

// The expected digest comes from the reference implementation (xxhsum -H2, 0.8).
TEST(Digest, IsXxh3With128Bits) {
  EXPECT_EQ(digest_of("", 0), "99aa06d3014798d86001c324468d497f");
  const TemporaryFolder folder;
  const std::string text = noise(2'500'000);
  write_file(folder / "a", text);
  EXPECT_EQ(digest_of_file(folder / "a"), digest_of(text.data(), text.size()));
  expect_error(Code::missing_file, [&] { digest_of_file(folder / "none"); });
  expect_error(Code::missing_file, [&] { digest_of_file(folder.path().string()); });
}

TEST(BaseName, IsTheLastSegment) {
  const std::array rows{std::pair{"a", "a"}, std::pair{"/x/y.onnx", "y.onnx"}, std::pair{"x/", ""}, std::pair{"", ""}};
  for (const auto& [path, expected] : rows) EXPECT_EQ(base_name(path), expected);
}

}  // namespace
}  // namespace whence
