// `--functions CHOICE` of export and annotate: which modules become local functions of the file that is written.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "annotator/functions/functions.h"
#include "whence/diagnostics.h"
#include "tools/whence/cli.h"

namespace whence {

void declare_functions(CommandLine& line);

// nullopt when the option was not given. Throws Error(usage) for another word than `auto`, `structure`, `types=`,
// `modules=` or `depth=`.
std::optional<OutlineOptions> parse_functions(const CommandLine& line);

nlohmann::ordered_json to_json(const OutlineReport& report);
// "4 functions: 94 nodes became 56", and how many modules were left as they are.
std::string describe(const OutlineReport& report);

}  // namespace whence
