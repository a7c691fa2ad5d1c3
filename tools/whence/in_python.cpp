#include "tools/whence/in_python.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "whence/diagnostics.h"

extern char** environ;

namespace whence {

namespace {

std::string python() {
  const char* named = std::getenv("WHENCE_PYTHON");
  return named != nullptr && *named != '\0' ? named : "python3";
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

bool has_package(const std::string& program) {
  // Not by running `-m whence`, of which a failure would not say whether it is the package's.
  std::vector<std::string> words = {program, "-c", "import whence"};
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const bool started = posix_spawnp(&child, program.c_str(), &quiet, nullptr, pointers(words).data(), environ) == 0;
  posix_spawn_file_actions_destroy(&quiet);
  int status = 0;
  if (!started || waitpid(child, &status, 0) != child) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Subcommands of which only a part is in Python: with recorded values, they run a model.
bool may_take_values(std::string_view subcommand) {
  return subcommand == "annotate" || subcommand == "record" || subcommand == "validate";
}

}  // namespace

bool is_in_python(std::span<char*> arguments) {
  const std::string_view subcommand = arguments.front();
  if (!may_take_values(subcommand))
    return subcommand == "accuracy" || subcommand == "sensitivity" || subcommand == "fleet";
  return std::ranges::any_of(arguments,
                             [](std::string_view each) { return each == "--values" || each.starts_with("--values="); });
}

void run_in_python(std::span<char*> arguments) {
  const std::string program = python();
  if (has_package(program)) {
    std::error_code ignored;
    // The package has a command of its own only where it was installed with it.
    setenv("WHENCE", std::filesystem::read_symlink("/proc/self/exe", ignored).c_str(), 0);
    std::vector<std::string> words = {program, "-m", "whence"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    execvp(program.c_str(), pointers(words).data());
  }
  const std::string what = std::string(arguments.front()) + (may_take_values(arguments.front()) ? " --values" : "");
  throw Error(Code::usage, "`whence " + what + "` is written in Python, and " + program + " has no package whence",
              "`pip install .` in the environment of PyTorch (docs/install.md), or name its Python in $WHENCE_PYTHON",
              Place{.stage = "command line"});
}

}  // namespace whence
