// Paths of source files relative to the root of a repository, and parsing of Python tracebacks.
#include "schema/files/source_root.h"

#include <gtest/gtest.h>

#include "schema/source_stack.h"
#include "tests/schema/temporary_folder.h"

namespace whence {
namespace {

class Repository : public ::testing::Test {
 protected:
  Repository() {
    std::filesystem::create_directories(folder_.path() / "a/b");
    std::filesystem::create_directories(folder_.path() / "venv/site-packages");
    for (const char* name : {"a/b/net.py", "venv/site-packages/linear.py"}) std::ofstream(folder_ / name) << "\n";
  }

  TemporaryFolder folder_;
  SourceRoot root_{folder_.path().string()};
};

TEST_F(Repository, FindsFilesRecordedInAnyFolder) {
  for (const std::string& source : {folder_ / "a/b/net.py", std::string("/build/a/b/net.py"), std::string("a/b/net.py"),
                                    std::string("./a/b/net.py")})
    EXPECT_EQ(root_.find(source), "a/b/net.py") << source;
  EXPECT_EQ(root_.below(folder_ / "a/../missing.onnx"), "missing.onnx");
}

TEST_F(Repository, DoesNotFindOtherFiles) {
  for (const std::string& source :
       {folder_ / "venv/site-packages/linear.py", std::string("/build/net.py"), std::string("/x/b/net.py"),
        std::string("../x.py"), std::string("<string>"), std::string(), std::string(100000, '/')})
    EXPECT_EQ(root_.find(source), std::nullopt) << source.substr(0, 80);
  EXPECT_EQ(root_.below(folder_.path().string()), std::nullopt);
  EXPECT_EQ(root_.below("/"), std::nullopt);
}

TEST_F(Repository, FindsTheInnermostLineOfTheRepository) {
  const Frame installed{.file = "/x/site-packages/linear.py", .line = 1, .function = "forward", .text = ""};
  const Frame local{.file = folder_ / "a/b/net.py", .line = 7, .function = "forward", .text = ""};
  const Frame generated{.file = "<eval_with_key>.3", .line = 2, .function = "f", .text = ""};
  EXPECT_EQ(root_.place_in({generated, installed, local}), "a/b/net.py:7 forward");
  EXPECT_EQ(root_.place_in({generated, installed}), "/x/site-packages/linear.py:1 forward");
  EXPECT_EQ(root_.place_in({generated}), "");
}

TEST(Traceback, StartsWithTheInnermostFrame) {
  const Stack stack = read_python_trace(
      "File \"/a/net.py\", line 12, in forward\n    return self.line(\n        x)\n  File \"linear.py\", line 134, in "
      "f");
  ASSERT_EQ(stack.size(), 2U);
  EXPECT_EQ(stack[0].file, "linear.py");
  EXPECT_EQ(stack[0].line, 134);
  EXPECT_EQ(stack[1].function, "forward");
  EXPECT_EQ(stack[1].text, "return self.line(\n    x)");
  EXPECT_TRUE(read_python_trace("no frame\n  File \"a.py\", line x, in f").empty());
}

}  // namespace
}  // namespace whence
