#include "annotator/view/tree_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "schema/json_text.h"
#include "schema/module_path.h"

namespace whence::view {

using text::Align;
using text::grouped;
using text::number_or_blank;

namespace {

constexpr std::size_t operators_shown = 4;

// Returns "MatMul x3, Add x2, Softmax", most frequent first.
std::string operators_text(const ModuleRow& row) {
  std::vector<std::pair<std::string, std::int64_t>> sorted(row.operators.begin(), row.operators.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (std::size_t i = 0; i < std::min(sorted.size(), operators_shown); ++i) {
    if (i > 0) text += ", ";
    text += sorted[i].first;
    if (sorted[i].second > 1) text += " x" + std::to_string(sorted[i].second);
  }
  if (sorted.size() > operators_shown) text += ", ... " + std::to_string(sorted.size() - operators_shown) + " more";
  return text;
}

std::string aliases_text(const ModuleRow& row) {
  std::string text;
  for (const std::string& alias : row.aliases) text += " = " + alias;
  return text;
}

}  // namespace

std::string to_text(const ModuleTree& tree, const std::vector<ShownRow>& rows, const text::Palette& palette) {
  ModuleTable table(palette, {{"type", Align::left},
                              {"calls", Align::right},
                              {tree.of_nodes ? "nodes" : "operations", Align::right},
                              {tree.of_weights ? "weights read" : "parameters", Align::right},
                              {"operators", Align::left}});
  for (const ShownRow& shown : rows) {
    const ModuleRow& row = tree.rows[shown.row];
    const std::string_view faint = row.total == 0 ? palette.dim : std::string_view{};
    table.module(
        row.path,
        {text::Cell(last_segment(row.type), palette.dim), row.calls ? number_or_blank(*row.calls) : "",
         number_or_blank(row.total), number_or_blank(row.parameters), text::Cell(operators_text(row), palette.dim)},
        faint, aliases_text(row));
  }
  std::string text = table.text();
  if (tree.unattributed > 0) {
    text += std::string(palette.yellow) + grouped(tree.unattributed) + " of " + grouped(tree.count) +
            " nodes have no module" + std::string(palette.reset) + "\n";
  }
  return text;
}

std::string to_json(const ModuleTree& tree, const std::vector<ShownRow>& rows, const std::string& file) {
  using nlohmann::ordered_json;
  const char* const unit = tree.of_nodes ? "nodes" : "operations";
  auto modules = ordered_json::array();
  for (const ShownRow& shown : rows) {
    const ModuleRow& row = tree.rows[shown.row];
    ordered_json entry;
    entry["path"] = row.path;
    entry["type"] = or_null(row.type);
    entry["parent"] = row.parent ? ordered_json(tree.rows[*row.parent].path) : ordered_json();
    entry["aliases"] = row.aliases;
    entry["calls"] = or_null(row.calls);
    entry[unit] = row.total;
    entry[std::string("own_") + unit] = row.own;
    entry["operators"] = row.operators;
    entry["parameters"] = row.parameters;
    entry["trainable"] = or_null(row.trainable);
    modules.push_back(std::move(entry));
  }
  ordered_json object = {{"file", file}, {unit, tree.count}};
  if (tree.of_nodes) object["unattributed"] = tree.unattributed;
  object["modules"] = std::move(modules);
  return json_text(object, 2);
}

}  // namespace whence::view
