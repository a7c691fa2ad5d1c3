// x -> Shape -> a,  x -> Shape -> b                    before: two nodes that compute the same
// x -> Shape -> a and b                                after
// Only nodes that rearrange, select or prepare sizes and masks: what a module computes on its own stays its own, even
// when another module happens to compute the same.
// Condition: operator, inputs and attributes are equal. Origins: the union, as a shared helper, unless it is one
// operation's.
#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

#include "annotator/simplify/rule.h"

namespace whence {

namespace {

// Of any dtype.
constexpr std::array layout = {"Cast",    "Concat",  "ConstantOfShape", "Expand",    "Flatten",
                               "Range",   "Reshape", "Shape",           "Size",      "Slice",
                               "Squeeze", "Tile",    "Transpose",       "Unsqueeze", "Where"};
// Of integers and bool only: sizes, indices, masks.
constexpr std::array arithmetic = {"Add",  "And",         "Div",        "Equal", "Gather", "Greater", "GreaterOrEqual",
                                   "Less", "LessOrEqual", "Max",        "Min",   "Mod",    "Mul",     "Neg",
                                   "Not",  "Or",          "ReduceProd", "Sub"};

bool may_share(const Rewriter& r, const GraphNode& node) {
  if (node.removed || !node.domain.empty() || node.outputs.size() != 1) return false;
  if (std::ranges::find(layout, node.op_type) != layout.end()) return true;
  const DType dtype = r.value(node.outputs[0]).dtype;
  return (dtype == DType::boolean || is_integral(dtype)) &&
         std::ranges::find(arithmetic, node.op_type) != arithmetic.end();
}

template <class T>
void append_list(std::string& text, const std::vector<T>& list) {
  for (const T& element : list) text += std::to_string(element) + ",";
}

// nullopt for attributes that are not worth comparing: graphs, lists of strings.
std::optional<std::string> key(const GraphNode& node) {
  std::string text = node.op_type + "(";
  append_list(text, node.inputs);
  std::vector<const Attribute*> attributes;
  for (const Attribute& attribute : node.attributes) attributes.push_back(&attribute);
  std::ranges::sort(attributes, {}, &Attribute::name);
  for (const Attribute* attribute : attributes) {
    text += ")" + attribute->name + "=";
    if (const auto* number = std::get_if<std::int64_t>(&attribute->value)) {
      text += std::to_string(*number);
    } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&attribute->value)) {
      append_list(text, *list);
    } else if (const auto* word = std::get_if<std::string>(&attribute->value)) {
      text += *word;
    } else if (const auto* tensor = std::get_if<TensorData>(&attribute->value)) {
      text += std::string(name_of(tensor->dtype)) + ":";
      append_list(text, tensor->shape);
      text.append(reinterpret_cast<const char*>(tensor->bytes.data), tensor->bytes.size);
    } else {
      return std::nullopt;
    }
  }
  return text;
}

NodeOrigin shared_origin(const NodeOrigin& a, const NodeOrigin& b) {
  if (a.kind == b.kind && a.ops == b.ops) return a;
  NodeOrigin both = merge_origins(a, b, OriginKind::shared);
  if (both.ops.size() == 1) both.kind = OriginKind::own;
  return both;
}

}  // namespace

std::size_t share_nodes(Rewriter& rewriter) {
  std::unordered_map<std::string, std::int32_t> first;
  std::size_t shared = 0;
  const auto count = static_cast<std::int32_t>(rewriter.graph().nodes.size());
  for (std::int32_t i = 0; i < count; ++i) {
    const GraphNode& node = rewriter.node(i);
    if (!may_share(rewriter, node)) continue;
    const auto text = key(node);
    if (!text) continue;
    const auto [found, is_new] = first.try_emplace(*text, i);
    if (is_new) continue;
    const GraphNode& kept = rewriter.node(found->second);
    GraphValueId from = node.outputs[0], to = kept.outputs[0];
    if (!rewriter.can_replace(from, to)) continue;
    const NodeOrigin origin = shared_origin(kept.origin, node.origin);
    rewriter.replace(from, to);
    rewriter.set_origin(found->second, origin);
    ++shared;
  }
  return shared;
}

}  // namespace whence
