#include "annotator/app/tables.h"

#include "annotator/app/read_options.h"
#include "annotator/app/recorder_library.h"
#include "annotator/convert/op_table.h"
#include "annotator/exporter/export.h"

namespace whence::app {

std::vector<ConvertibleOperator> convertible_operators() {
  const convert::OpTable& table = convert::OpTable::get();
  std::vector<ConvertibleOperator> operators;
  for (const std::string& key : table.keys()) operators.push_back({key, std::string(table.find(key)->schema)});
  return operators;
}

Diagnostics export_problems(const std::string& archive, const Options& options) {
  const ReadOptions read = read_options(archive, options);
  exporter::ExportOptions conversion;
  conversion.opset = options.opset;
  conversion.trace_composite = trace_composite;
  load_operators(options.libraries);
  Diagnostics notes;
  const auto graph = exporter::export_program(read_archive(read, notes), conversion);
  return graph ? Diagnostics{} : graph.diagnostics();
}

std::vector<const validation::Rule*> rules(const std::string& code_or_name) {
  std::vector<const validation::Rule*> found;
  for (const validation::Rule* rule : validation::all_rules()) {
    if (code_or_name.empty() || code_or_name == rule->code || code_or_name == rule->name) found.push_back(rule);
  }
  if (!found.empty()) return found;
  throw Error(Code::usage, "there is no rule '" + code_or_name + "'", "`whence rules` lists them",
              {.stage = "command line"});
}

}  // namespace whence::app
