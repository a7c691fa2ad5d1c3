// Writes plain lists of names: one per line, and grouped by module.
#include <nlohmann/json.hpp>

#include "annotator/dialect/dialect.h"
#include "schema/json_text.h"

namespace whence::dialect {

namespace {

std::string line_refusal(const view::SelectedNode& node, const Choice&) {
  return node.name.find('\n') == std::string::npos ? "" : "has a line break in its name";
}

std::string write_lines(const Choice& choice) {
  std::string text;
  for (const std::string& name : names_of(choice)) text += name + "\n";
  return text;
}

std::string write_by_module(const Choice& choice) {
  nlohmann::ordered_json modules = nlohmann::ordered_json::object();
  for (const view::SelectedNode& node : choice.nodes) modules[node.module].push_back(node.name);
  return json_text(modules, 2) + "\n";
}

}  // namespace

const Dialect names_dialect = {"names", "one name per line (the default)", Bodies::seen, {}, line_refusal, write_lines};
const Dialect modules_dialect = {"modules", "names by module, JSON", Bodies::seen, {}, nullptr, write_by_module};

}  // namespace whence::dialect
