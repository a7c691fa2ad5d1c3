// Runs programs and waits for them.
#include "schema/child_process.h"

#include <cerrno>

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace whence {
namespace {

TEST(ChildProcess, GivesOutputAndStatus) {
  const std::string many = "head -c 300000 /dev/zero | tr '\\0' x; exit 3";  // more than a pipe holds
  const auto end = run_child({"sh", "-c", many});
  ASSERT_TRUE(end);
  EXPECT_EQ(end->output, std::string(300000, 'x'));
  EXPECT_EQ(WEXITSTATUS(end->status), 3);
}

TEST(ChildProcess, HasEmptyInputAndTheRequestedEnvironment) {
  const auto end = run_child({"/bin/sh", "-c", "cat; echo $GIVEN; echo hidden >&2"},
                             {.environment = {"GIVEN=that", "PATH=/usr/bin:/bin"}, .hide_errors = true});
  ASSERT_TRUE(end);
  EXPECT_EQ(end->output, "that\n");
}

TEST(ChildProcess, ReportsAFailedStart) {
  EXPECT_FALSE(run_child({"/no/such/program"}));
  EXPECT_EQ(errno, ENOENT);
}

}  // namespace
}  // namespace whence
