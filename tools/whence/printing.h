// Prints the parts of reports of the C++ API that several subcommands share.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/whence/cli.h"
#include "whence/annotate.h"
#include "whence/functions.h"

namespace whence {

// The object of a subcommand on standard output; with diagnostics, they are its last member.
void print_json(const nlohmann::ordered_json& object);
void print_json(nlohmann::ordered_json object, const Diagnostics& notes);

nlohmann::ordered_json to_json(const FunctionsReport& report);
// "4 functions: 94 nodes became 56", and how many modules were left as they are.
std::string describe(const FunctionsReport& report);

// "46 exact, 194 inferred, 20 ancestor": the words that occur; empty when there is no node.
std::string describe(const NodeCounts& nodes);

// `--output` and `--overwrite` of a subcommand that writes a model.
void declare_model_output(CommandLine& line, const std::string& help, Target target);
// `--copy-data` of one that may leave the weights where they are.
void declare_copy_data(CommandLine& line);
// Both, as the user gave them.
WeightFiles weight_files(const CommandLine& line);

}  // namespace whence
