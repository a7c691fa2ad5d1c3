#include "annotator/dialect/written_choice.h"

#include <algorithm>
#include <map>
#include <set>

#include "schema/printable.h"

namespace whence::dialect {

using onnx_file::OnnxSummary;
using view::SelectedNode;

namespace {

std::string described(const SelectedNode& node) {
  return (node.name.empty() ? "a " + node.op_type : "'" + node.name + "'") + " of " +
         (node.module.empty() ? "the root" : node.module);
}

Place choice_place(const OnnxSummary& model) { return {.file = model.file->path(), .stage = "select"}; }

// Throws if a node has no name or a name that is not UTF-8.
void require_names(const std::vector<SelectedNode>& nodes, const OnnxSummary& model) {
  for (const SelectedNode& node : nodes) {
    if (!node.name.empty() && is_utf8(node.name)) continue;
    throw Error(Code::usage, described(node) + (node.name.empty() ? " has no name" : " has a name that is not UTF-8"),
                "run `whence annotate`, which names every node", choice_place(model));
  }
}

// Throws if a name is also that of a node outside the choice: a tool selects all nodes with a name.
void require_own_names(const Dialect& dialect, const std::vector<SelectedNode>& nodes, const OnnxSummary& model) {
  std::map<std::string, std::int64_t, std::less<>> other_nodes;
  for (const SelectedNode& node : nodes) {
    --other_nodes[node.name];
    if (const std::string name = dialect.renamed ? dialect.renamed(node) : ""; !name.empty())
      other_nodes.try_emplace(name, 0);
  }
  for (const onnx_file::OnnxNode* node : onnx_file::all_nodes(model.graph)) {
    if (const auto chosen = other_nodes.find(node->name); chosen != other_nodes.end()) ++chosen->second;
  }
  for (const auto& [name, others] : other_nodes) {
    if (others <= 0) continue;
    throw Error(Code::usage, "'" + name + "' is also the name of a node that is not selected",
                "run `whence annotate`, which gives every node a unique name", choice_place(model));
  }
}

std::string refusal_of(const Dialect& dialect, const SelectedNode& node, const Choice& choice) {
  if (node.nested && dialect.bodies == Bodies::unseen)
    return "is in the body of another node, which " + std::string(dialect.name) + " does not search";
  return dialect.refusal ? dialect.refusal(node, choice) : "";
}

std::set<std::string_view> operators_left_out(const std::vector<SelectedNode>& nodes, const OnnxSummary& model) {
  std::set<std::string_view> chosen, operators;
  for (const SelectedNode& node : nodes) chosen.insert(node.name);
  for (const onnx_file::OnnxNode* node : onnx_file::all_nodes(model.graph)) {
    if (!chosen.contains(node->name)) operators.insert(node->op_type);
  }
  return operators;
}

// Removes the nodes that the tool cannot take; throws if there are any without `partial`.
void require_expressible(const Dialect& dialect, std::vector<SelectedNode>& nodes, const OnnxSummary& model,
                         bool partial, Diagnostics& notes) {
  std::string first;
  const std::size_t before = nodes.size();
  const Choice complete{nodes, model, "", operators_left_out(nodes, model)};
  std::erase_if(nodes, [&](const SelectedNode& node) {
    const std::string why = refusal_of(dialect, node, complete);
    if (!why.empty() && first.empty()) first = described(node) + " " + why;
    return !why.empty();
  });
  const std::size_t refused = before - nodes.size();
  if (refused == 0) return;
  const std::string message = std::to_string(refused) + " of " + std::to_string(before) +
                              " selected nodes cannot be written as " + std::string(dialect.name) + ": " + first;
  if (!partial || nodes.empty()) {
    throw Error(Code::usage, message,
                nodes.empty() ? "choose other nodes, or another format"
                              : "choose other nodes, or leave these out with --partial",
                choice_place(model));
  }
  notes.push_back(warning(Code::usage, message, "--partial leaves them out", choice_place(model)));
}

std::string setting_of(const Dialect& dialect, const std::string& setting) {
  const auto& known = dialect.settings;
  if (setting.empty()) return known.empty() ? "" : std::string(known.front());
  if (std::ranges::find(known, setting) != known.end()) return setting;
  std::string choices;
  for (const std::string_view each : known) choices += (choices.empty() ? "" : ", ") + std::string(each);
  throw Error(Code::usage, "--as " + setting + " is not valid for --format " + std::string(dialect.name),
              known.empty() ? "omit --as" : "choose from " + choices, {.stage = "command line"});
}

}  // namespace

std::string write_choice(const Dialect& dialect, std::vector<SelectedNode> nodes, const OnnxSummary& model,
                         const ChoiceOptions& options, Diagnostics& notes) {
  const std::string setting = setting_of(dialect, options.setting);
  if (nodes.empty()) {
    throw Error(Code::usage, "no node matches all of --modules, --not and --ops",
                "omit one of these options; `whence show` lists modules and their operators", choice_place(model));
  }
  require_names(nodes, model);
  require_own_names(dialect, nodes, model);
  require_expressible(dialect, nodes, model, options.partial, notes);
  if (!dialect.limit.empty()) notes.push_back(note(Code::usage, std::string(dialect.limit), {.stage = "select"}));
  return dialect.write({std::move(nodes), model, setting});
}

}  // namespace whence::dialect
