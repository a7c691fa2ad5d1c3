#include "schema/child_process.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace whence {
namespace {

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t size = 0; (size = ::read(fd, buffer, sizeof buffer)) > 0 || (size < 0 && errno == EINTR);) {
    if (size > 0) text.append(buffer, static_cast<std::size_t>(size));
  }
  return text;
}

}  // namespace

std::vector<char*> null_terminated(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::optional<ChildResult> run_child(std::vector<std::string> words, ChildOptions options) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (options.hide_errors) posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  const bool own = options.environment.empty();
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, words.front().c_str(), &actions, nullptr, null_terminated(words).data(),
                                    own ? environ : null_terminated(options.environment).data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  ChildResult result;
  if (failed == 0) result.output = read_all(ends[0]);
  ::close(ends[0]);
  if (failed != 0) return errno = failed, std::nullopt;
  while (::waitpid(child, &result.status, 0) < 0 && errno == EINTR) {
  }
  return result;
}

}  // namespace whence
