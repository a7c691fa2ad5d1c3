// `whence ops`: the PyTorch operators that export converts.
#include <iostream>
#include <nlohmann/json.hpp>

#include "annotator/export/op_table.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"

namespace whence {
namespace {

ExitCode run(int argc, char** argv) {
  CommandLine line("ops", "[--json]", "Lists the operators that have a converter, each with its overload.");
  line.flag("schemas", "the whole schema of each");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const OpTable& table = OpTable::get();
  if (line.json()) {
    auto operators = nlohmann::ordered_json::array();
    for (const std::string& key : table.keys()) {
      operators.push_back({{"operator", key}, {"schema", table.find(key)->schema}});
    }
    std::cout << nlohmann::ordered_json{{"operators", std::move(operators)}}.dump(2) << "\n";
    return ExitCode::ok;
  }
  for (const std::string& key : table.keys()) {
    std::cout << (line.has("schemas") ? std::string(table.find(key)->schema) : key) << "\n";
  }
  return ExitCode::ok;
}

}  // namespace

const Command ops_command = {"ops", "the PyTorch operators that export converts", run};

}  // namespace whence
