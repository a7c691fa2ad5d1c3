#include "annotator/view/explanation.h"

#include <algorithm>

#include "annotator/match/evidence.h"
#include "annotator/metadata/node_names.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/origin/keys/torch.h"
#include "schema/nearest_names.h"
#include "schema/source_stack.h"

namespace whence::view {

using origin::Confidence;
using origin::OriginKind;
namespace keys = origin::keys;
using metadata::Attribution;
using metadata::Recorded;
using onnx_file::OnnxNode;
using onnx_file::OnnxSummary;

namespace {

std::vector<std::string> texts(const std::vector<std::string_view>& views) { return {views.begin(), views.end()}; }

[[noreturn]] void throw_unknown(const OnnxSummary& model, const std::string& name,
                                const std::vector<const OnnxNode*>& nodes) {
  const Place place{.file = model.file->path(), .stage = "explain"};
  std::vector<std::string_view> names;
  for (const OnnxNode* node : nodes) {
    if (!node->name.empty()) names.push_back(node->name);
  }
  std::string remedy = "use the name of an output value: this file's nodes have no names";
  if (!names.empty()) {
    remedy = "the nearest names: ";
    const std::vector<std::string> near = nearest_names(name, names, 3);
    for (std::size_t i = 0; i < near.size(); ++i) remedy += (i > 0 ? ", " : "") + near[i];
  }
  throw Error(Code::unknown_node, "no node or value is called '" + name + "'", remedy, place);
}

// Adds a note for each other node that had this name before `whence annotate`.
const OnnxNode& find_node(const OnnxSummary& model, const std::string& name, Diagnostics& notes) {
  const std::vector<const OnnxNode*> nodes = onnx_file::all_nodes(model.graph);
  const metadata::NamedNodes found = metadata::find_nodes(nodes, name);
  if (found.nodes.empty()) throw_unknown(model, name, nodes);
  const Place place{.file = model.file->path(), .stage = "explain"};
  const OnnxNode& first = *found.nodes.front();
  if (found.nodes.size() > 1) {
    const bool formerly = found.by == metadata::NamedNodes::By::original_name;
    throw Error(Code::usage,
                std::to_string(found.nodes.size()) + " nodes " +
                    (formerly ? "were called '" + name + "' before `whence annotate`" : "are called '" + name + "'"),
                formerly ? "use the node's present name, for example " + std::string(first.name)
                         : "use the node's output value, for example " +
                               std::string(first.outputs.empty() ? "the first" : first.outputs.front()),
                place);
  }
  for (const OnnxNode* other : found.formerly) {
    notes.push_back(note(Code::usage,
                         "'" + std::string(other->name) + "' was called '" + name +
                             "', too, before `whence annotate`; this explains the node that has the name now",
                         place));
  }
  return first;
}

ExplainedOperation explain_operation(const Recorded& recorded, std::int32_t index) {
  const Program& program = recorded.program();
  const Node& node = *recorded.operation(index);
  ExplainedOperation result{index, qualified(node), {}, {}};
  for (ScopeId at = node.origin.scope; at > root_scope; at = program.scopes[at].parent) {
    const Scope& scope = program.scopes[at];
    const Module& module = program.modules[scope.module];
    result.scope.insert(result.scope.begin(), {module.path, module.type, scope.call});
  }
  if (node.origin.stack != none_id) {
    for (const Frame& frame : program.stacks[node.origin.stack]) {
      if (!is_generated(frame)) result.source.push_back(source_place(frame));
    }
  }
  return result;
}

// Returns the stack of the source line that the node states; empty if it states none.
Stack stack_of(const OnnxNode& node, const Attribution& attribution, const Recorded* recorded) {
  if (attribution.source.empty()) return {};
  if (const auto text = onnx_file::find_property(node.metadata, keys::stack_trace)) return read_python_trace(*text);
  if (recorded == nullptr || !attribution.origin || attribution.origin->ops.empty()) return {};
  const Node* const operation = recorded->operation(attribution.origin->ops.front());
  if (operation == nullptr || operation->origin.stack == none_id) return {};
  return recorded->program().stacks[operation->origin.stack];
}

std::string type_of(const OnnxNode& node, const std::string& module, const Program* program) {
  if (program != nullptr) {
    for (const Module& entry : program->modules) {
      if (entry.path == module) return entry.type;
    }
  }
  return metadata::type_by_exporter(node, module);
}

// States how the match engine found the module (annotator/match/evidence.h).
std::string found_by(const Attribution& attribution) {
  const std::string_view sentence = match::sentence_of(attribution.rule);
  if (!sentence.empty())
    return std::string(sentence) + " (" + std::string(origin::name_of(attribution.confidence)) + ")";
  return "the key " + std::string(keys::module) + " names it, found by rule " + attribution.rule;
}

// States what the exporter's own keys contain, and what remains uncertain.
std::string by_exporter(const OnnxNode& node, const Attribution& attribution) {
  const std::string remedy = "; `whence annotate --sidecar` verifies it";
  if (node.captured != nullptr) {
    return "the exporter's own metadata names the first call of a region that modules share; " +
           std::string(node.captured->certain ? "the parameters of this call are of this module"
                                              : "nothing shows which call this node is of") +
           remedy;
  }
  if (attribution.confidence == Confidence::ancestor) {
    return "the exporter's own metadata names one module, but the node's parameters belong to another: this module "
           "encloses both" +
           remedy;
  }
  if (attribution.modules.size() > 1) {
    return "the exporter's own metadata names the folded norm, and the weight is named after the layer before it" +
           remedy;
  }
  return "the exporter's own metadata names it" + remedy;
}

// States what the recording lacks about an operation's module, with a remedy; empty if the module was recorded.
// Modules are missing in recordings of C++ modules, and for branches and loops of a .pt2, which stores none for them.
std::string how_recorded(Confidence confidence, const OnnxNode& node) {
  const std::string_view stack = onnx_file::find_property(node.metadata, keys::stack_trace).value_or("");
  const bool is_python = stack.find(".py\"") != std::string_view::npos;
  const std::string remedy =
      is_python ? "" : "; in a C++ model, a whence::ModuleScope in the module's forward records it (docs/cpp.md)";
  if (confidence == Confidence::inferred)
    return "; its module was not recorded but inferred from the operations around it" + remedy;
  if (confidence == Confidence::ancestor)
    return "; the recording shows only that its module is this one or one below" + remedy;
  return "";
}

// Returns the reason for a node that whence exported with a stamp.
std::string exported_because(const Attribution& attribution, const OnnxNode& node) {
  const origin::NodeOrigin& origin = *attribution.origin;
  if (origin.ops.empty()) return "no operation produced it: the model returns its input unchanged";
  const std::string count = std::to_string(origin.ops.size());
  const std::string operations = count + (origin.ops.size() == 1 ? " recorded operation" : " recorded operations");
  const std::string recorded = how_recorded(attribution.confidence, node);
  if (origin.kind == OriginKind::fused) {
    return "whence exported it in place of " + operations + "; it belongs to the modules of all of them" + recorded;
  }
  if (origin.kind == OriginKind::shared && attribution.confidence == Confidence::ancestor) {
    return operations + " share it; this is the deepest known module that encloses them all";
  }
  if (origin.kind == OriginKind::shared) return operations + " of this module share it" + recorded;
  return "whence exported it as part of one recorded operation" + (recorded.empty() ? " of this module" : recorded);
}

}  // namespace

std::string reason_of(const OnnxNode& node, const Attribution& attribution, const Recorded* recorded) {
  if (!attribution.attributed()) {
    if (attribution.origin && recorded == nullptr) {
      return "whence exported this node, but only the sidecar resolves its stamp: pass --sidecar";
    }
    if (attribution.origin) return "its stamp names operations that are not in the sidecar";
    if (onnx_file::find_property(node.metadata, keys::confidence) == origin::name_of(Confidence::unattributed)) {
      return "`whence annotate` found no module for it: pass it the model's sidecar, or the tool's input with "
             "--from";
    }
    return node.metadata.empty() ? "the node has no metadata: run `whence annotate`"
                                 : "none of the node's keys names its module: run `whence annotate`";
  }
  if (attribution.by_exporter) return by_exporter(node, attribution);
  if (attribution.rule != "stamp" && attribution.rule != "shared" && !attribution.rule.empty()) {
    return found_by(attribution);
  }
  if (attribution.origin) return exported_because(attribution, node);
  return "the key " + std::string(keys::module) + " names it" +
         (attribution.rule.empty() ? "" : ", found by rule " + attribution.rule);
}

std::vector<ExplainedOperation> operations_of(const Attribution& attribution, const Recorded* recorded) {
  std::vector<ExplainedOperation> operations;
  if (recorded == nullptr || !attribution.origin) return operations;
  for (const std::int32_t op : attribution.origin->ops) {
    if (recorded->operation(op) != nullptr) operations.push_back(explain_operation(*recorded, op));
  }
  return operations;
}

Explanation explain(const OnnxNode& node, const Recorded* recorded, const SourceRoot& root) {
  const Program* const program = recorded == nullptr ? nullptr : &recorded->program();
  Explanation result;
  result.node = node.name;
  result.op_type = node.op_type;
  result.domain = node.domain;
  result.inputs = texts(node.inputs);
  result.outputs = texts(node.outputs);
  result.attribution = metadata::attribution_of(node, recorded);
  result.file = root.place_in(stack_of(node, result.attribution, recorded));
  result.module_type = type_of(node, result.attribution.primary, program);
  result.reason = reason_of(node, result.attribution, recorded);
  result.operations = operations_of(result.attribution, recorded);
  for (const onnx_file::OnnxProperty& entry : node.metadata.list())
    result.evidence.emplace_back(entry.key, entry.value);
  return result;
}

Result<Explanation> explain_node(const OnnxSummary& model, const std::string& name, const Program* program,
                                 const SourceRoot& root) {
  Diagnostics notes;
  Result<Explanation> result = guarded([&] {
    if (program != nullptr && !metadata::belongs_to(model, *program)) {
      throw Error(Code::sidecar_mismatch, "the file was not exported from the program that the sidecar describes",
                  "pass the sidecar that was recorded from the same archive, or none",
                  {.file = model.file->path(), .stage = "explain"});
    }
    const OnnxNode& node = find_node(model, name, notes);
    std::optional<Recorded> recorded;
    if (program != nullptr) recorded.emplace(*program);
    return explain(node, recorded ? &*recorded : nullptr, root);
  });
  return result ? Result<Explanation>(std::move(*result), std::move(notes)) : result;
}

}  // namespace whence::view
