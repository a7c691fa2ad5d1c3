// `whence rules`: lists the rules of `whence validate`.
#include <iostream>
#include <nlohmann/json.hpp>

#include "annotator/app/tables.h"
#include "annotator/text/table.h"
#include "annotator/validation/check.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/palette.h"
#include "tools/whence/printing.h"

namespace whence {

using text::Align;
using validation::Rule;

namespace {

ExitCode run(int argc, char** argv) {
  CommandLine line("rules", "[--rule V101]",
                   "Lists the rules of `whence validate` with code, severity and summary; with --rule, one rule in\n"
                   "full. Codes are stable: use them for --allow and in other tools.");
  line.option("rule", "CODE", "only this rule, by its code or name");
  line.example("whence rules --rule V203");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const std::vector<const Rule*> rules = app::rules(line.text_or("rule", ""));
  if (line.json()) {
    auto list = nlohmann::ordered_json::array();
    for (const Rule* rule : rules) {
      list.push_back({{"code", rule->code},
                      {"name", rule->name},
                      {"severity", rule->level()},
                      {"summary", rule->summary},
                      {"why", rule->why},
                      {"remedy", rule->remedy}});
    }
    print_json({{"rules", list}});
    return ExitCode::ok;
  }
  if (line.has("rule")) {
    const Rule& rule = *rules.front();
    std::cout << rule.code << " " << rule.name << " (" << rule.level() << ")\n  finds  " << rule.summary
              << "\n  why    " << rule.why << "\n  try    " << rule.remedy << "\n";
    return ExitCode::ok;
  }
  text::Table table(output_palette(), {Align::left, Align::left, Align::left, Align::left});
  for (const Rule* rule : rules) table.row({rule->code, rule->level(), rule->name, rule->summary});
  std::cout << table.text();
  return ExitCode::ok;
}

}  // namespace

const Command rules_command = {"rules", "list what validate can find, and why it matters", run};

}  // namespace whence
