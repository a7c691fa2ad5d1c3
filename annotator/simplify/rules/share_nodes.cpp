// x -> Shape -> a,  x -> Shape -> b                    before: two nodes that compute the same value
// x -> Shape -> a and b                                after
// Nodes that rearrange, select or prepare sizes and masks are shared across modules. Nodes that compute are shared only
// within one module call: a module keeps its own nodes even if another module computes the same value. Condition:
// operator, inputs and attributes are equal. Origins: the union, fused, because the node replaces all of them; a shared
// helper if one of them was one, unless all belong to one operation.
#include <algorithm>
#include <bit>
#include <string>
#include <unordered_map>

#include "annotator/simplify/rule.h"

namespace whence::simplify {

using graph::Attribute;
using graph::GraphNode;
using origin::NodeOrigin;

namespace {

bool serves_any_module(const Rewriter& r, const GraphNode& node) {
  if (is(node, operators::helper)) return true;
  const DType dtype = r.value(node.outputs[0]).dtype;
  return (dtype == DType::boolean || is_integral(dtype)) && is(node, operators::integer_helper);
}

// Returns the module call that all operations of the node belong to; nullopt if they belong to several.
std::optional<ScopeId> scope_of(const NodeOrigin& origin, const std::vector<ScopeId>& scopes) {
  std::optional<ScopeId> scope;
  for (const std::int32_t op : origin.ops) {
    if (op < 0 || static_cast<std::size_t>(op) >= scopes.size()) return std::nullopt;
    const ScopeId one = scopes[static_cast<std::size_t>(op)];
    if (scope && *scope != one) return std::nullopt;
    scope = one;
  }
  return scope;
}

// Returns the scope within which equal nodes are shared: "" for anywhere, or the number of a module call; nullopt if
// the node is not shared.
std::optional<std::string> sharing_scope(const Rewriter& r, const GraphNode& node, const std::vector<ScopeId>& scopes) {
  if (node.removed || !node.domain.empty() || node.outputs.size() != 1 || r.value(node.outputs[0]).sequence) {
    return std::nullopt;
  }
  if (serves_any_module(r, node)) return "";
  const auto scope = is(node, operators::random) ? std::nullopt : scope_of(node.origin, scopes);
  return scope ? std::optional(std::to_string(scope->number())) : std::nullopt;
}

template <class T>
void append_list(std::string& text, const std::vector<T>& list) {
  for (const T& element : list) text += std::to_string(element) + ",";
}

// Returns a key that is equal for equal nodes; nullopt for attributes that are not compared: graphs, lists of strings.
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
    } else if (const auto* real = std::get_if<float>(&attribute->value)) {
      text += std::to_string(std::bit_cast<std::uint32_t>(*real));
    } else if (const auto* word = std::get_if<std::string>(&attribute->value)) {
      text += *word;
    } else if (const auto* tensor = std::get_if<TensorData>(&attribute->value)) {
      text += std::string(name_of(tensor->dtype)) + ":";
      append_list(text, tensor->shape);
      text.append(as_text(tensor->bytes.in_memory().value()));
    } else {
      return std::nullopt;
    }
  }
  return text;
}

NodeOrigin shared_origin(const NodeOrigin& a, const NodeOrigin& b) {
  if (a.kind == b.kind && a.ops == b.ops) return a;
  const bool helper = a.kind == origin::OriginKind::shared || b.kind == origin::OriginKind::shared;
  NodeOrigin both = origin::merge_origins(a, b, helper ? origin::OriginKind::shared : origin::OriginKind::fused);
  if (both.ops.size() == 1) both.kind = origin::OriginKind::own;
  return both;
}

}  // namespace

std::size_t share_nodes(Rewriter& rewriter, const std::vector<ScopeId>& scopes) {
  std::unordered_map<std::string, std::int32_t> first;
  std::size_t shared = 0;
  const auto count = static_cast<std::int32_t>(rewriter.graph().nodes.size());
  for (std::int32_t i = 0; i < count; ++i) {
    const GraphNode& node = rewriter.node(i);
    const auto within = sharing_scope(rewriter, node, scopes);
    const auto text = within ? key(node) : std::nullopt;
    if (!text) continue;
    const auto [found, is_new] = first.try_emplace(*within + *text, i);
    if (is_new) continue;
    const GraphNode& kept = rewriter.node(found->second);
    graph::GraphValueId from = node.outputs[0], to = kept.outputs[0];
    if (!rewriter.can_replace(from, to)) continue;
    const NodeOrigin origin = shared_origin(kept.origin, node.origin);
    rewriter.replace(from, to);
    rewriter.set_origin(found->second, origin);
    ++shared;
  }
  return shared;
}

}  // namespace whence::simplify
