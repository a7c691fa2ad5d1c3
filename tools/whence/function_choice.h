// `--functions CHOICE` of export and annotate: which modules become local functions of the file that is written.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "annotator/functions/outline_file.h"
#include "tools/whence/cli.h"
#include "whence/diagnostics.h"

namespace whence {

// What took the place of cutting by the structure of the graph alone.
inline constexpr const char* annotate_first =
    "`whence annotate` the file with a sidecar or --from, then cut it by its modules: `whence functions` without a "
    "choice takes the repeated ones";

void declare_functions(CommandLine& line);

// nullopt when the option was not given. Throws Error(usage) for another word than `auto`, `types=`,
// `modules=` or `depth=`.
std::optional<FunctionChoice> parse_functions(const CommandLine& line);

nlohmann::ordered_json to_json(const FunctionsReport& report);
// "4 functions: 94 nodes became 56", and how many modules were left as they are.
std::string describe(const FunctionsReport& report);

}  // namespace whence
