// Runs programs and waits for them.
#include "schema/child_process.h"

#include <cerrno>

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace whence {
namespace {

TEST(ChildProcess, ReturnsOutputAndStatus) {
  const std::string script = "head -c 300000 /dev/zero | tr '\\0' x; exit 3";  // more than the buffer of a pipe
  const auto result = run_child({"sh", "-c", script});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output, std::string(300000, 'x'));
  EXPECT_EQ(WEXITSTATUS(result->status), 3);
}

TEST(ChildProcess, HasEmptyInputAndOnlyTheSpecifiedEnvironment) {
  const auto result = run_child({"/bin/sh", "-c", "cat; echo $NAME; echo hidden >&2"},
                                {.environment = {"NAME=value", "PATH=/usr/bin:/bin"}, .hide_errors = true});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output, "value\n");
}

TEST(ChildProcess, ReportsAFailedStart) {
  EXPECT_FALSE(run_child({"/no/such/program"}));
  EXPECT_EQ(errno, ENOENT);
}

}  // namespace
}  // namespace whence
