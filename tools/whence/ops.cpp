// `whence ops`: lists the PyTorch operators that export converts.
#include <iostream>
#include <nlohmann/json.hpp>

#include "annotator/app/tables.h"
#include "schema/nearest_names.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/printing.h"

namespace whence {

namespace {

ExitCode missing(const CommandLine& line) {
  Options options;
  options.inputs_file = line.text_or("inputs", "");
  options.opset = static_cast<int>(line.integer_or("opset", options.opset));
  options.libraries = line.list("library");
  const Diagnostics problems = app::export_problems(line.text("missing"), options);
  if (line.json()) {
    print_json({{"missing", nlohmann::ordered_json::parse(json_array(problems))}});
  } else {
    print_text(problems);
    if (problems.empty()) std::cout << "every operator has a converter\n";
  }
  return exit_code(problems);
}

std::string without_overload(const std::string& name) { return name.substr(0, name.find('.')); }

// Returns the operators with these names; a name without overload means all overloads. Throws Error(no_converter) if a
// name matches no operator.
std::vector<app::ConvertibleOperator> named(std::vector<app::ConvertibleOperator> all,
                                            const std::vector<std::string>& names) {
  if (names.empty()) return all;
  std::vector<app::ConvertibleOperator> found;
  for (const std::string& given : names) {
    const std::string name = given.find("::") == std::string::npos ? "aten::" + given : given;
    const std::size_t before = found.size();
    std::vector<std::string> operator_names;
    for (const app::ConvertibleOperator& each : all) {
      operator_names.push_back(without_overload(each.name));
      if (each.name == name || operator_names.back() == name) found.push_back(each);
    }
    if (found.size() > before) continue;
    const auto near = nearest(without_overload(name), operator_names);
    throw Error(Code::no_converter, name + " has no converter",
                near ? "did you mean " + *near + "?"
                     : "`whence ops --missing ARCHIVE` checks whether an archive can be exported anyway",
                {.stage = "command line"});
  }
  return found;
}

ExitCode run(int argc, char** argv) {
  CommandLine line("ops", "[NAME...] [--json] [--missing ARCHIVE]",
                   "Lists the operators that have a converter, with their overloads: all of them, or those with the\n"
                   "given names. An operator without a converter can be exported if ATen composes it of others.");
  line.optional_words("name", "an operator with or without overload: aten::gelu, gelu, aten::add.Tensor");
  line.flag("schemas", "print the complete schema of each operator");
  line.option("missing", "ARCHIVE",
              "list what cannot be converted in this archive (.pt, .pt2), and where; exit code 4 if there is any");
  line.option("inputs", "FILE", "for --missing with a scripted archive: example inputs, as for `whence export`");
  line.repeated("library", "FILE", "for --missing: a shared library that defines operators of the archive");
  line.option("opset", "N", "for --missing: 13 to 28, 20 by default");
  if (!line.parse(argc, argv)) return ExitCode::ok;
  if (line.has("missing")) return missing(line);

  const std::vector<app::ConvertibleOperator> operators = named(app::convertible_operators(), line.list("name"));
  if (line.json()) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& [name, schema] : operators) list.push_back({{"operator", name}, {"schema", schema}});
    print_json({{"operators", std::move(list)}});
    return ExitCode::ok;
  }
  for (const auto& [name, schema] : operators) std::cout << (line.has("schemas") ? schema : name) << "\n";
  return ExitCode::ok;
}

}  // namespace

const Command ops_command = {"ops", "list the PyTorch operators that export converts", run};

}  // namespace whence
