#include "recorder/native/whence_command.h"

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <torch/version.h>
#include <unistd.h>

#include "whence/record.h"

extern char** environ;

namespace whence::native {

namespace fs = std::filesystem;

namespace {

constexpr const char* command_remedy =
    "install whence's command beside its library, or name it in $WHENCE or in Options::command";

// The folder of the library that holds `symbol`.
fs::path folder_of(const void* symbol) {
  Dl_info found{};
  if (dladdr(symbol, &found) == 0 || found.dli_fname == nullptr) return {};
  std::error_code ignored;
  return fs::weakly_canonical(found.dli_fname, ignored).parent_path();
}

std::string find_command(const std::string& given) {
  if (!given.empty()) return given;
  if (const char* named = std::getenv("WHENCE"); named != nullptr && *named != '\0') return named;
  const fs::path beside = folder_of(reinterpret_cast<const void*>(&run_whence)).parent_path() / "bin" / "whence";
  return fs::exists(beside) ? beside.string() : "whence";
}

// The command is to load the LibTorch that this process has.
std::vector<std::string> environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("WHENCE_TORCH_DIR=")) variables.emplace_back(*entry);
  }
  const auto* torch = dlsym(RTLD_DEFAULT, "_ZN2at9_ops4relu4callERKNS_6TensorE");
  if (const fs::path folder = folder_of(torch); !folder.empty())
    variables.push_back("WHENCE_TORCH_DIR=" + folder.string());
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t size = 0; (size = ::read(fd, buffer, sizeof buffer)) > 0 || (size < 0 && errno == EINTR);) {
    if (size > 0) text.append(buffer, static_cast<std::size_t>(size));
  }
  return text;
}

Code code_named(const std::string& name) {
  for (const CodeInfo& entry : all_codes()) {
    if (entry.name == name) return entry.code;
  }
  return Code::internal;
}

Place to_place(const nlohmann::json& json) {
  Place place;
  place.file = json.value("file", "");
  place.stage = json.value("stage", "");
  place.has_module = json.contains("module");
  place.module = json.value("module", "");
  place.node = json.value("node", "");
  place.op = json.value("op", "");
  place.source = json.value("source", "");
  return place;
}

Diagnostics to_diagnostics(const nlohmann::json& json) {
  Diagnostics diagnostics;
  for (const auto& entry : json) {
    const std::string severity = entry.value("severity", "error");
    Diagnostic diagnostic{code_named(entry.value("name", "")),
                          severity == "error"     ? Severity::error
                          : severity == "warning" ? Severity::warning
                                                  : Severity::note,
                          entry.value("message", ""),
                          to_place(entry.value("where", nlohmann::json::object())),
                          entry.value("remedy", ""),
                          entry.value("count", std::int64_t{1}),
                          {}};
    for (const auto& place : entry.value("more_places", nlohmann::json::array()))
      diagnostic.more_places.push_back(to_place(place));
    diagnostics.push_back(std::move(diagnostic));
  }
  return diagnostics;
}

// Its standard output; standard error stays the program's.
std::string run_process(const std::string& command, std::vector<std::string> arguments, int& status) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(Code::needs_command, "no pipe to the whence command", "close some files", {.stage = "record"});
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  arguments.insert(arguments.begin(), command);
  std::vector<std::string> variables = environment();
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, command.c_str(), &actions, nullptr, pointers(arguments).data(),
                                    pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  const std::string output = failed == 0 ? read_all(ends[0]) : "";
  ::close(ends[0]);
  if (failed != 0) {
    throw Error(Code::needs_command, "the whence command could not be started: " + command, command_remedy,
                {.stage = "record"});
  }
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return output;
}

}  // namespace

Diagnostics run_whence(const std::string& given, const std::vector<std::string>& arguments) {
  const std::string command = find_command(given);
  std::vector<std::string> all = arguments;
  all.emplace_back("--json");
  int status = 0;
  const std::string output = run_process(command, all, status);
  const auto json = nlohmann::json::parse(output, nullptr, /*allow_exceptions=*/false);
  Diagnostics diagnostics;
  if (json.is_object() && json.contains("diagnostics")) diagnostics = to_diagnostics(json["diagnostics"]);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return diagnostics;
  if (!diagnostics.empty()) throw Error(std::move(diagnostics));
  if (WIFSIGNALED(status)) {
    throw Error(Code::internal, command + " crashed (signal " + std::to_string(WTERMSIG(status)) + ")",
                "please report this with the model", {.stage = "record"});
  }
  throw Error(Code::needs_command, command + " ended without a result, status " + std::to_string(status),
              command_remedy, {.stage = "record"});
}

}  // namespace whence::native
