// `whence codes`: lists every error code with its exit code.
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/printing.h"

namespace whence {
namespace {

ExitCode run(int argc, char** argv) {
  CommandLine line("codes", "[--json]", "Lists the codes of whence's errors and warnings.");
  if (!line.parse(argc, argv)) return ExitCode::ok;
  if (line.json()) {
    auto codes = nlohmann::ordered_json::array();
    for (const CodeInfo& code : all_codes()) {
      codes.push_back({{"code", label(code.code)},
                       {"name", code.name},
                       {"exit", static_cast<int>(code.exit)},
                       {"summary", code.summary}});
    }
    print_json({{"codes", std::move(codes)}});
    return ExitCode::ok;
  }
  for (const CodeInfo& code : all_codes()) {
    std::string name(code.name);
    name.resize(22, ' ');
    std::cout << label(code.code) << "  exit " << static_cast<int>(code.exit) << "  " << name << code.summary << "\n";
  }
  return ExitCode::ok;
}

}  // namespace

const Command codes_command = {"codes", "the error codes and what they mean", run};

}  // namespace whence
