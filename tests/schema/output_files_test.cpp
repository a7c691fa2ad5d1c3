// Either all output files are renamed to their targets, or none.
#include "schema/files/output_files.h"

#include <gtest/gtest.h>

#include "tests/schema/expect_error.h"
#include "tests/schema/temporary_folder.h"

namespace whence {
namespace {

namespace fs = std::filesystem;

TEST(OutputFiles, CommitRenamesAllFiles) {
  const TemporaryFolder folder;
  write_file(folder / "old", "before");
  {
    OutputFiles files;
    files.add(folder / "old").write("after");
    files.add(folder / "new").write("new");
    EXPECT_EQ(content_of(folder / "old"), "before");
    EXPECT_FALSE(fs::exists(folder / "new"));
    files.commit();
  }
  EXPECT_EQ(content_of(folder / "old"), "after");
  EXPECT_EQ(content_of(folder / "new"), "new");
  EXPECT_EQ(folder.file_count(), 2U);
}

// A folder replaces one target before the commit, so that the rename to this target fails.
TEST(OutputFiles, RestoresAllTargetsIfOneRenameFails) {
  for (const char* failing : {"a", "b", "c", "d"}) {
    const TemporaryFolder folder;
    write_file(folder / "a", "a before");
    write_file(folder / "c", "c before");
    fs::permissions(folder / "a", fs::perms::owner_read);
    OutputFiles files;
    for (const char* name : {"a", "b", "c", "d"}) files.add(folder / name).write(std::string(name) + " after");
    const bool existed = fs::remove(folder / failing);
    fs::create_directory(folder / failing);
    EXPECT_NE(expect_error(Code::cannot_write, [&] { files.commit(); }).find(failing), std::string::npos);
    fs::remove(folder / failing);
    if (existed) write_file(folder / failing, std::string(failing) + " before");
    EXPECT_EQ(content_of(folder / "a"), "a before") << failing;
    EXPECT_EQ(content_of(folder / "c"), "c before") << failing;
    EXPECT_FALSE(fs::exists(folder / "b")) << failing;
    EXPECT_FALSE(fs::exists(folder / "d")) << failing;
  }
}

TEST(OutputFiles, AFailedWriteChangesNoTarget) {
  const TemporaryFolder folder;
  write_file(folder / "a", "before");
  {
    OutputFiles files;
    files.add(folder / "a").write("after");
    files.add("/dev/full").write("x");
    expect_error(Code::cannot_write, [&] { files.commit(); });
  }
  EXPECT_EQ(content_of(folder / "a"), "before");
  EXPECT_EQ(folder.file_count(), 1U);
}

TEST(OutputFiles, RefusesAFileThatIsAddedTwice) {
  const TemporaryFolder folder;
  write_file(folder / "a", "before");
  fs::create_symlink("a", folder / "link");
  OutputFiles files;
  files.add(folder / "a");
  expect_error(Code::usage, [&] { files.add(folder / "./a"); });
  expect_error(Code::usage, [&] { files.add(folder / "link"); });
  files.add("/dev/null");
  files.add("/dev/null");
}

TEST(OutputFiles, DoesNotReplaceARequiredNewTarget) {
  const TemporaryFolder folder;
  {
    OutputFiles files;
    AtomicFile& file = files.add(folder / "a");
    file.require_new_target();
    file.write("output");
    write_file(folder / "a", "another");
    expect_error(Code::cannot_write, [&] { files.commit(); });
  }
  EXPECT_EQ(content_of(folder / "a"), "another");
  EXPECT_EQ(folder.file_count(), 1U);
}

TEST(OutputFiles, MovesFinishedFiles) {
  const TemporaryFolder folder;
  write_file(folder / "finished", "bytes");
  write_file(folder / "old", "before");
  fs::permissions(folder / "old", fs::perms::owner_read | fs::perms::owner_write);
  OutputFiles files;
  files.add(folder / "old").take(folder / "finished");
  files.commit();
  EXPECT_EQ(content_of(folder / "old"), "bytes");
  EXPECT_EQ(fs::status(folder / "old").permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_FALSE(fs::exists(folder / "finished"));
}

TEST(SameContent, ComparesBytes) {
  const TemporaryFolder folder;
  write_file(folder / "a", std::string(5'000'000, 'a'));
  write_file(folder / "b", std::string(4'999'999, 'a') + "b");
  write_file(folder / "c", std::string(5'000'000, 'a'));
  write_file(folder / "empty", "");
  write_file(folder / "empty2", "");
  write_file(folder / "large", std::string(40'000'000, 'a'));
  write_file(folder / "large2", std::string(39'999'999, 'a') + "b");
  EXPECT_TRUE(same_content(folder / "a", folder / "c"));
  EXPECT_FALSE(same_content(folder / "a", folder / "b"));
  EXPECT_FALSE(same_content(folder / "large", folder / "large2"));
  EXPECT_FALSE(same_content(folder / "a", folder / "empty"));
  EXPECT_TRUE(same_content(folder / "empty", folder / "empty2"));
}

}  // namespace
}  // namespace whence
