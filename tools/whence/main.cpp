// The `whence` command: runs the subcommand and reports errors. It does not link LibTorch: subcommands that need it
// load the recorder library (recorder_library.h).
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <span>
#include <string>
#include <vector>

#include <malloc.h>

#include "schema/freed_memory.h"
#include "schema/nearest_names.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/crashes.h"
#include "tools/whence/description.h"
#include "tools/whence/in_python.h"
#include "tools/whence/memory_limit.h"

namespace whence {
namespace {

void print_help(std::ostream& out) {
  out << "whence shows where every ONNX node comes from: its module, the call of the module, the source line.\n\n"
         "usage: whence <command> [options]\n\ncommands:\n";
  for (const Command* command : all_commands()) {
    std::string name = command->name;
    name.resize(16, ' ');
    out << "  " << name << command->summary << "\n";
  }
  out << "\nwith the Python package:\n";
  for (const PythonCommand& command : python_commands) {
    std::string name = command.name;
    name.resize(16, ' ');
    out << "  " << name << command.summary << "\n";
  }
  out << "\noptions:\n"
         "  --help      this text; `whence <command> --help`, or `whence help <command>`, explains a command\n"
         "  --version   version of whence\n\n"
         "exit codes: ";
  for (const CodeMeaning& each : exit_code_meanings) {
    out << (&each == &exit_code_meanings.front() ? "" : ", ") << each.code << " " << each.meaning;
  }
  out << "\n\nnew here: `whence doctor` lists what is installed and what to install; `whence skill` is a guide for "
         "agents\n";
}

const Command& find_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command* command : all_commands()) {
    if (name == command->name) return *command;
    names.emplace_back(command->name);
  }
  const auto near = nearest(name, names);
  const bool option = name.starts_with('-');
  throw Error(Code::usage, (option ? "unknown option " : "unknown command ") + name,
              near ? "did you mean `whence " + *near + "`?" : "`whence --help` lists the commands",
              Place{.stage = "command line"});
}

// Finds --json before the options are parsed, so that a wrong option is also reported as JSON.
bool wants_json(std::span<char*> arguments) {
  for (const char* argument : arguments) {
    if (std::strcmp(argument, "--") == 0) return false;
    if (std::strcmp(argument, "--json") == 0) return true;
  }
  return false;
}

ExitCode run(std::span<char*> arguments) {
  if (arguments.empty()) {
    print_help(std::cerr);
    return ExitCode::usage;
  }
  const std::string first = arguments.front();
  if (first == "help" && arguments.size() > 1) {
    std::string help = "--help";
    std::vector<char*> words = {arguments[1], help.data()};
    return run(words);
  }
  if (first == "--help" || first == "-h" || first == "help") {
    print_help(std::cout);
    return ExitCode::ok;
  }
  if (first == "--version" || first == "version") {
    std::cout << (wants_json(arguments) ? "{\"version\": \"" WHENCE_VERSION "\"}\n" : "whence " WHENCE_VERSION "\n");
    return ExitCode::ok;
  }
  if (is_in_python(arguments)) run_in_python(arguments);
  limit_memory();
  const auto rest = arguments.subspan(1);
  return find_command(first).run(static_cast<int>(rest.size()), rest.data());
}

ExitCode run_guarded(std::span<char*> arguments) {
  Diagnostics diagnostics;
  try {
    const ExitCode code = run(arguments);
    if (std::cout.flush()) return code;
    diagnostics = Error(Code::cannot_write, "standard output could not be written",
                        "check the free space and the program that reads whence's output", Place{.stage = "write"})
                      .diagnostics();
  } catch (const Error& error) {
    diagnostics = error.diagnostics();
  } catch (const std::bad_alloc&) {
    diagnostics = out_of_memory().diagnostics();
  } catch (const std::exception& error) {
    diagnostics = Error(Code::internal, std::string("unexpected failure: ") + error.what(),
                        "please report this with the command line and the file")
                      .diagnostics();
  }
  print_diagnostics(diagnostics, wants_json(arguments));
  std::cout.flush();
  return exit_code(diagnostics);
}

}  // namespace

}  // namespace whence

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  std::signal(SIGXFSZ, SIG_IGN);  // writing a file over the shell's limit then fails with an error
  // Disables fast bins: malloc empties them at every large free, which takes a sixth of the time of a large model.
  mallopt(M_MXFAST, 0);
  whence::delay_memory_release();
  const auto arguments = std::span(argv, static_cast<std::size_t>(argc)).subspan(argc > 0 ? 1 : 0);
  whence::report_crashes(whence::wants_json(arguments));
  const auto code = whence::run_guarded(arguments);
  // All files are committed. Skips destructors: LibTorch's dispatcher takes as long to destroy as to load.
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(code));
}
