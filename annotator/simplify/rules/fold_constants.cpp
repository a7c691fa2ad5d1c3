// 2, 3 -> Mul                                          before: a node whose inputs are all constants
// 6                                                    after
// Folds shape computations with known sizes, masks and position tables, and arithmetic on weights (weight_norm, 1 + w).
// Condition: the result makes the file no larger (schema/folding.h). Large embeddings stay even for constant positions,
// because users look for these modules in the file. Origins: the constant has the origin of the node it replaces, and
// the name of the parameter that it was computed from.
#include <algorithm>

#include "annotator/simplify/evaluate/evaluate.h"
#include "annotator/simplify/rule.h"

namespace whence::simplify {

using graph::GraphNode;
using graph::GraphValueId;
using graph::no_value;

namespace {

bool reads_constants_only(const Rewriter& r, const GraphNode& node) {
  return std::ranges::all_of(node.inputs,
                             [&](GraphValueId input) { return input == no_value || r.constant(input) != nullptr; });
}

Constants constants_of(const Rewriter& r, const GraphNode& node) {
  Constants inputs;
  for (const GraphValueId input : node.inputs) inputs.push_back(input == no_value ? nullptr : r.constant(input));
  return inputs;
}

constexpr std::int64_t large = 8192;  // elements

// Returns true for a Gather of several rows of a large parameter [n, width].
bool is_embedding(const Rewriter& r, const GraphNode& node) {
  if (!is(node, "Gather") || node.int_attribute("axis", 0) != 0 || !r.is_parameter(node.inputs[0])) return false;
  const TensorData& table = *r.constant(node.inputs[0]);
  return table.shape.size() == 2 && table.element_count() > large && is_floating(table.dtype) &&
         !r.constant(node.inputs[1])->shape.empty();
}

// Returns the name without the suffixes of folding: "conv.weight" for "conv.weight.T".
std::string_view base_of(std::string_view name) {
  for (bool stripped = true; stripped;) {
    stripped = false;
    for (const std::string_view suffix : {".T", ".cast", ".reshaped", ".rows", ".folded"}) {
      if (!name.ends_with(suffix)) continue;
      name.remove_suffix(suffix.size());
      stripped = true;
    }
  }
  return name;
}

// Returns "conv.weight.folded" if the largest input that is a parameter, or was computed from one, is or comes from
// conv.weight. Rows are named after their table, parameter or not.
std::string name_of_result(const Rewriter& r, const GraphNode& node) {
  const bool rows = is(node, "Gather");
  GraphValueId largest = no_value;
  for (const GraphValueId input : node.inputs) {
    if (input == no_value || r.value(input).name.empty()) continue;
    const std::string& name = r.value(input).name;
    if (!rows && !r.is_parameter(input) && base_of(name) == name) continue;
    if (largest == no_value || r.constant(input)->bytes.size() > r.constant(largest)->bytes.size()) largest = input;
  }
  if (largest == no_value) return "";
  return std::string(base_of(r.value(largest).name)) + (rows ? ".rows" : ".folded");
}

}  // namespace

Outcome fold_constants(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& node = rewriter.node(index);
  // The check that most nodes fail comes first.
  if (!reads_constants_only(rewriter, node) || !can_evaluate(node)) return no_match();
  if (is_embedding(rewriter, node)) return refused("the table is a parameter of the model");
  const auto result = evaluate(node, constants_of(rewriter, node), max_folded_bytes(rewriter.constants_read(node)));
  if (!result) return refused("the result is too large to store, or only the runtime can compute it");
  if (rewriter.is_output(node.outputs[0])) return refused("a graph output needs a node that computes it");
  rewriter.fold(index, *result, name_of_result(rewriter, node));
  return changed();
}

}  // namespace whence::simplify
