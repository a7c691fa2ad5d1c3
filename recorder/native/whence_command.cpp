// Finds and starts the whence command, and reads its JSON diagnostics.
#include "recorder/native/whence_command.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include <dlfcn.h>
#include <sys/wait.h>
#include <torch/version.h>

#include "schema/child_process.h"
#include "whence/record.h"

extern char** environ;

namespace whence::native {

namespace fs = std::filesystem;

namespace {

constexpr const char* command_remedy =
    "install the whence command next to its library, or specify its path in $WHENCE or Options::command";

// Returns the folder of the library that contains `symbol`.
fs::path folder_of(const void* symbol) {
  Dl_info found{};
  if (dladdr(symbol, &found) == 0 || found.dli_fname == nullptr) return {};
  std::error_code ignored;
  return fs::weakly_canonical(found.dli_fname, ignored).parent_path();
}

std::string find_command(const std::string& requested_command) {
  if (!requested_command.empty()) return requested_command;
  if (const char* named = std::getenv("WHENCE"); named != nullptr && *named != '\0') return named;
  const fs::path installed = folder_of(reinterpret_cast<const void*>(&run_whence)).parent_path() / "bin" / "whence";
  return fs::exists(installed) ? installed.string() : "whence";
}

// Returns the environment of the command, which must load the LibTorch of this process.
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

}  // namespace

Diagnostics run_whence(const std::string& requested_command, const std::vector<std::string>& arguments) {
  const std::string command = find_command(requested_command);
  std::vector<std::string> words = {command};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.emplace_back("--json");
  const auto end = run_child(std::move(words), {.environment = environment()});
  if (!end) {
    throw Error(Code::needs_command,
                "the whence command could not be started: " + command + ": " + std::strerror(errno), command_remedy,
                {.stage = "record"});
  }
  const int status = end->status;
  const auto json = nlohmann::json::parse(end->output, nullptr, /*allow_exceptions=*/false);
  Diagnostics diagnostics;
  if (json.is_object() && json.contains("diagnostics")) diagnostics = to_diagnostics(json["diagnostics"]);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return diagnostics;
  if (!diagnostics.empty()) throw Error(std::move(diagnostics));
  if (WIFSIGNALED(status)) {
    throw Error(Code::internal, command + " crashed (signal " + std::to_string(WTERMSIG(status)) + ")",
                "please report this with the model", {.stage = "record"});
  }
  throw Error(Code::needs_command, command + " exited without a result, wait status " + std::to_string(status),
              command_remedy, {.stage = "record"});
}

}  // namespace whence::native
