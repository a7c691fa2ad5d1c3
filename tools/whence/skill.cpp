// `whence skill`: prints the guide for agents, the repository's SKILL.md.
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/printing.h"
#include "whence_texts.h"

namespace whence {
namespace {

ExitCode run(int argc, char** argv) {
  CommandLine line("skill", "[--json]",
                   "Prints a guide for agents: the command for each question, its JSON output and its exit codes.\n"
                   "`whence skill > SKILL.md` writes it to a file that agents read.");
  line.example("whence skill > skills/whence/SKILL.md");
  if (!line.parse(argc, argv)) return ExitCode::ok;
  line.json() ? print_json({{"skill", texts::skill}}) : void(std::cout << texts::skill);
  return ExitCode::ok;
}

}  // namespace

const Command skill_command = {"skill", "print a guide for agents: the command for each question", run};

}  // namespace whence
