// The table of subcommands, in the order of `whence --help`.
#include "tools/whence/command.h"

namespace whence {

namespace {

const Command* const kCommands[] = {
    &record_command,         &export_command,  &annotate_command, &carry_command,       &validate_command,
    &show_command,           &explain_command, &diff_command,     &strip_command,       &functions_command,
    &inline_command,         &select_command,  &place_command,    &extract_command,     &attest_command,
    &refit_command,          &weights_command, &report_command,   &dot_command,         &graphml_command,
    &model_explorer_command, &profile_command, &ops_command,      &rules_command,       &codes_command,
    &doctor_command,         &skill_command,   &man_command,      &completions_command,
};

}  // namespace

std::span<const Command* const> all_commands() { return kCommands; }

}  // namespace whence
