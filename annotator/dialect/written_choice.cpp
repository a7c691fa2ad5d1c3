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

// A list of names is of no use where nodes have none.
void require_names(const std::vector<SelectedNode>& nodes, const OnnxSummary& model) {
  for (const SelectedNode& node : nodes) {
    if (!node.name.empty() && is_utf8(node.name)) continue;
    throw Error(Code::usage, described(node) + (node.name.empty() ? " has no name" : " has a name that is not UTF-8"),
                "`whence annotate` names every node", choice_place(model));
  }
}

// A tool that is given a name takes every node that has it.
void require_own_names(const Dialect& dialect, const std::vector<SelectedNode>& nodes, const OnnxSummary& model) {
  std::map<std::string, std::int64_t, std::less<>> bearers;
  for (const SelectedNode& node : nodes) {
    --bearers[node.name];
    if (const std::string name = dialect.renamed ? dialect.renamed(node) : ""; !name.empty())
      bearers.try_emplace(name, 0);
  }
  for (const onnx_file::OnnxNode* node : onnx_file::all_nodes(model.graph)) {
    if (const auto chosen = bearers.find(node->name); chosen != bearers.end()) ++chosen->second;
  }
  for (const auto& [name, others] : bearers) {
    if (others <= 0) continue;
    throw Error(Code::usage, "'" + name + "' is also the name of a node that is not selected",
                "`whence annotate` gives every node a name of its own", choice_place(model));
  }
}

std::string refusal_of(const Dialect& dialect, const SelectedNode& node, const Choice& choice) {
  if (node.nested && dialect.bodies == Bodies::unseen)
    return "stands in the body of another node, where " + std::string(dialect.name) + " does not look";
  return dialect.refusal ? dialect.refusal(node, choice) : "";
}

std::set<std::string_view> operators_left_out(const std::vector<SelectedNode>& nodes, const OnnxSummary& model) {
  std::set<std::string_view> chosen, left;
  for (const SelectedNode& node : nodes) chosen.insert(node.name);
  for (const onnx_file::OnnxNode* node : onnx_file::all_nodes(model.graph)) {
    if (!chosen.contains(node->name)) left.insert(node->op_type);
  }
  return left;
}

// Takes out the nodes that the tool cannot be given.
void require_expressible(const Dialect& dialect, std::vector<SelectedNode>& nodes, const OnnxSummary& model,
                         bool partial, Diagnostics& notes) {
  std::string first;
  const std::size_t before = nodes.size();
  const Choice whole{nodes, model, "", operators_left_out(nodes, model)};
  std::erase_if(nodes, [&](const SelectedNode& node) {
    const std::string why = refusal_of(dialect, node, whole);
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
  notes.push_back(warning(Code::usage, message, "they are left out, as --partial says", choice_place(model)));
}

std::string setting_of(const Dialect& dialect, const std::string& setting) {
  const auto& known = dialect.settings;
  if (setting.empty()) return known.empty() ? "" : std::string(known.front());
  if (std::ranges::find(known, setting) != known.end()) return setting;
  std::string choices;
  for (const std::string_view each : known) choices += (choices.empty() ? "" : ", ") + std::string(each);
  throw Error(Code::usage, "--as " + setting + " is not for --format " + std::string(dialect.name),
              known.empty() ? "leave it out" : "choose among " + choices, {.stage = "command line"});
}

}  // namespace

std::string write_choice(const Dialect& dialect, std::vector<SelectedNode> nodes, const OnnxSummary& model,
                         const ChoiceOptions& options, Diagnostics& notes) {
  const std::string setting = setting_of(dialect, options.setting);
  if (nodes.empty()) {
    throw Error(Code::usage, "no node is in all of the choices",
                "`whence show` lists modules and their operators; take one of --modules, --not, --ops away",
                choice_place(model));
  }
  require_names(nodes, model);
  require_own_names(dialect, nodes, model);
  require_expressible(dialect, nodes, model, options.partial, notes);
  return dialect.write({std::move(nodes), model, setting});
}

}  // namespace whence::dialect
