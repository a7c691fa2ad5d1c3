// Finds a Python with the package whence, and replaces this process with it.
#include "tools/whence/in_python.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "schema/child_process.h"
#include "whence/diagnostics.h"

namespace whence {

namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path this_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored);
}

// The folders of a command that was built but not installed.
struct BuildTree {
  fs::path build;
  fs::path source;
};

// Returns none for an installed command, which has no CMake cache next to its folder.
std::optional<BuildTree> build_tree() {
  const fs::path build = this_program().parent_path().parent_path();
  std::ifstream cache(build / "CMakeCache.txt");
  const std::string_view key = "CMAKE_HOME_DIRECTORY:INTERNAL=";
  std::error_code ignored;
  for (std::string line; std::getline(cache, line);) {
    if (!line.starts_with(key)) continue;
    const fs::path source = line.substr(key.size());
    if (fs::exists(source / "python" / "whence" / "__main__.py", ignored)) return BuildTree{build, source};
  }
  return std::nullopt;
}

// Returns the Python in $WHENCE_PYTHON, else the one in the build tree's virtual environment, else python3.
std::string python(const std::optional<BuildTree>& tree) {
  if (const std::string named = variable("WHENCE_PYTHON"); !named.empty()) return named;
  if (tree) {
    std::error_code ignored;
    for (const fs::path& folder : {tree->build, tree->source / "build"}) {
      const fs::path found = folder / "venv" / "bin" / "python";
      if (fs::exists(found, ignored)) return found.string();
    }
  }
  return "python3";
}

bool has_package(const std::string& program) {
  // Imports the package: a failure of `-m whence` could have another cause.
  const auto end = run_child({program, "-c", "import whence"}, {.environment = {}, .hide_errors = true});
  return end && WIFEXITED(end->status) && WEXITSTATUS(end->status) == 0;
}

// Adds the source tree's package to PYTHONPATH, after the caller's folders.
void add_package_of(const BuildTree& tree) {
  const std::string folder = (tree.source / "python").string(), before = variable("PYTHONPATH");
  setenv("PYTHONPATH", (before.empty() ? folder : before + ":" + folder).c_str(), 1);
}

// Returns true if the Python has the package. In a build tree, adds the source tree's package, unless the caller chose
// the Python and it has a package of its own.
bool finds_package(const std::string& program, const std::optional<BuildTree>& tree) {
  const bool is_named = !variable("WHENCE_PYTHON").empty();
  if ((is_named || !tree) && has_package(program)) return true;
  if (!tree) return false;
  add_package_of(*tree);
  return has_package(program);
}

// Returns the option with which Python runs the subcommand; an empty string if it has no such option.
std::string_view option_for_python(std::string_view subcommand) {
  if (subcommand == "carry") return "--check";
  constexpr std::array<std::string_view, 4> with_values = {"annotate", "attest", "record", "validate"};
  return std::ranges::count(with_values, subcommand) > 0 ? "--values" : "";
}

}  // namespace

std::string python_of_command() {
  const std::optional<BuildTree> tree = build_tree();
  const std::string program = python(tree);
  finds_package(program, tree);
  return program;
}

bool is_in_build_tree() { return build_tree().has_value(); }

bool is_in_python(std::span<char*> arguments) {
  const std::string_view subcommand = arguments.front();
  const std::string_view option = option_for_python(subcommand);
  if (option.empty())
    return std::ranges::any_of(python_commands, [&](const PythonCommand& each) { return subcommand == each.name; });
  // The words after -- belong to the tools of `whence carry`.
  const auto tools =
      std::ranges::find(arguments, std::string_view("--"), [](const char* each) { return std::string_view(each); });
  return std::any_of(arguments.begin(), tools, [&](std::string_view each) {
    return each == option || each.starts_with(std::string(option) + "=");
  });
}

void run_in_python(std::span<char*> arguments) {
  const std::optional<BuildTree> tree = build_tree();
  const std::string program = python(tree);
  if (finds_package(program, tree)) {
    // The package may not contain a command, so it gets this one.
    setenv("WHENCE", this_program().c_str(), 0);
    std::vector<std::string> words = {program, "-m", "whence"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    execvp(program.c_str(), null_terminated(words).data());
  }
  const std::string_view option = option_for_python(arguments.front());
  const std::string what = std::string(arguments.front()) + (option.empty() ? "" : " " + std::string(option));
  throw Error(Code::usage, "`whence " + what + "` needs the Python package, and " + program + " has no package whence",
              "run `pip install whence-onnx` in the environment of PyTorch, or specify its Python in $WHENCE_PYTHON",
              Place{.stage = "command line"});
}

}  // namespace whence
