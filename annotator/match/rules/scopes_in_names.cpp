// Reads scopes from names of nodes and values (scope_in_name.h).
#include <algorithm>

#include "annotator/match/rules/rule.h"
#include "annotator/operators/onnx_operators.h"
#include "annotator/origin/keys/undo.h"

namespace whence::match {

using origin::Confidence;
namespace keys = origin::keys;

namespace {

struct Named {
  const std::vector<ScopeIndex>* scopes = nullptr;
  bool below = false;      // the name may mean a module inside
  bool shortened = false;  // more than the operator was dropped: the name may mean another module
};

// Returns the scopes of the name's path or, if it is not a module's, of the path without its last segment.
Named scopes_in(const RuleContext& context, std::string_view text) {
  if (!text.starts_with('/')) return {};
  const ScopeInName named = context.scopes.read(text);
  std::string_view path = named.path;
  for (const bool dropped : {false, true}) {
    if (dropped && path.empty()) return {};
    if (dropped) path = path.substr(0, path.rfind('/'));
    if (dropped && path.empty()) return {};  // `/encoder/Unknown` is no evidence of the root
    const bool shortened = dropped || named.is_extended;
    if (const auto& found = context.names.scopes_of_path(path); !found.empty()) return {&found, named.below, shortened};
    for (const std::string& first_call : first_calls(path)) {
      if (const auto& found = context.names.scopes_of_path(first_call); !found.empty()) {
        return {&found, named.below, shortened};
      }
    }
  }
  return {};
}

// Returns true if annotate gave the names, which do not state the confidence in the module.
bool is_named_by_annotate(const RuleContext& context) {
  return context.reference.values_keep_names || onnx_file::find_property(context.model.metadata, keys::annotated);
}

Confidence max_confidence_of(std::string_view name, const Named& found, const RuleContext& context) {
  if (found.below) return Confidence::ancestor;
  const UnitIndex unit = context.reference.values_keep_names ? context.names.unit_named(name) : UnitIndex();
  return std::max(Confidence::inferred,
                  !unit.exists() ? Confidence::inferred : context.reference.units[unit].confidence);
}

// Returns true for a quantizer that a tool named after the value that it quantizes, which is no evidence of its own
// module: "/stem/Conv_output_0_QuantizeLinear".
bool is_named_after_value(const StructureNode<Side::foreign>& node, std::string_view name) {
  return operators::has(node.op_type, operators::quantizes) &&
         !name.substr(name.rfind('/') + 1).starts_with(node.op_type);
}

}  // namespace

void scopes_in_names(const RuleContext& context, EvidenceTable& table) {
  constexpr double of_node = 2, of_value = 1.6, shortened = 0.5;
  const ForeignStructure& structure = context.foreign.structure;
  const bool by_annotate = is_named_by_annotate(context);
  context.each_node([&](ForeignNode i) {
    const auto& node = structure.nodes[i];
    const auto add = [&](std::string_view name, double strength) {
      if (is_named_after_value(node, name)) return true;
      const Named found = scopes_in(context, name);
      if (found.scopes == nullptr) return false;
      const Confidence max_confidence =
          by_annotate || found.below ? max_confidence_of(name, found, context) : Confidence::matched;
      for (const ScopeIndex scope : *found.scopes) {
        table[i].push_back(
            {MatchRule::names, {}, scope, strength * (found.shortened ? shortened : 1), name, max_confidence});
      }
      return true;
    };
    if (node.source.exists() && add(node.name, of_node)) return;
    for (const ForeignValue output : node.outputs) {
      if (output.exists() && add(structure.values[output].name, of_value)) break;
    }
  });
}

}  // namespace whence::match
