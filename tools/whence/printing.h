// Prints the parts of reports of the C++ API that several subcommands share.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/whence/cli.h"
#include "whence/annotate.h"
#include "whence/functions.h"

namespace whence {

// Prints the object of a subcommand on standard output. Diagnostics become its last member.
void print_json(const nlohmann::ordered_json& object);
void print_json(nlohmann::ordered_json object, const Diagnostics& notes);

nlohmann::ordered_json to_json(const FunctionsReport& report);
// Returns "4 functions: 94 nodes became 56", and the number of modules that were left as they are.
std::string describe(const FunctionsReport& report);

// Returns "46 exact, 194 inferred, 20 ancestor", without zeros; "" if there is no node.
std::string describe(const NodeCounts& nodes);

// Declares `--output` and `--overwrite` for a subcommand that writes a model.
void declare_model_output(CommandLine& line, const std::string& help, Target target);
// Declares `--copy-data` for a subcommand whose output may refer to the model's own weight files.
void declare_copy_data(CommandLine& line);
// Returns the values of `--overwrite` and `--copy-data`.
WeightFiles weight_files(const CommandLine& line);

}  // namespace whence
