// Writes the complete comparison as JSON (schema/diff.schema.json).
#include <nlohmann/json.hpp>

#include "annotator/view/diff.h"
#include "schema/json_text.h"

namespace whence::view {
namespace {

using nlohmann::ordered_json;

// Returns [first file's, second file's]. Plain braces would turn two lists of two names into an object.
ordered_json both(ordered_json a, ordered_json b) { return ordered_json::array({std::move(a), std::move(b)}); }

ordered_json changes_json(const ModuleDiff& row) {
  ordered_json changes;
  for (std::size_t i = 0; i < change_count; ++i) changes[std::string(name_of(static_cast<Change>(i)))] = row.changes[i];
  return changes;
}

ordered_json row_json(const ModuleDiff& row) {
  return {{"path", or_null(row.path)},
          {"nodes", both(row.nodes_a, row.nodes_b)},
          {"own_nodes", both(row.own_a, row.own_b)},
          {"parameters", both(row.parameters_a, row.parameters_b)},
          {"changes", changes_json(row)}};
}

ordered_json node_json(const ChangedNode& node) {
  return {{"change", name_of(node.change)},
          {"op_type", node.op_type},
          {"names", both(or_null(node.name_a), or_null(node.name_b))},
          {"modules", both(node.modules_a, node.modules_b)},
          {"fused", node.fused},
          {"differences", node.differences},
          {"inserted", node.inserted}};
}

}  // namespace

std::string to_json(const ModelDiff& diff) {
  auto modules = ordered_json::array(), nodes = ordered_json::array();
  for (const ModuleDiff& row : diff.modules) modules.push_back(row_json(row));
  for (const ChangedNode& node : diff.nodes) nodes.push_back(node_json(node));
  const ordered_json object = {{"files", both(diff.file_a, diff.file_b)},
                               {"same", diff.same()},
                               {"model", diff.model},
                               {"nodes", both(diff.all.nodes_a, diff.all.nodes_b)},
                               {"parameters", both(diff.all.parameters_a, diff.all.parameters_b)},
                               {"changes", changes_json(diff.all)},
                               {"modules", std::move(modules)},
                               {"changed_nodes", std::move(nodes)}};
  return json_text(object, 2);
}

}  // namespace whence::view
