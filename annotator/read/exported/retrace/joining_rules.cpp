// Operators that put tensors together and take them apart.
#include "annotator/read/exported/retrace/rule_helpers.h"

namespace whence {
namespace {

using Arguments = Retrace::Arguments;

// Each tensor where it has the size of all, or spread to it.
bool broadcast_tensors(Retrace& t, const FxCall& c) {
  if (c.given.empty() || c.given.front().values.size() != c.results.size()) return false;
  for (std::size_t i = 0; i < c.results.size(); ++i) {
    const std::string_view value = c.given.front().values[i];
    const std::string wanted = t.sizes_text(c.results[i]);
    if (t.sizes_text(value) == wanted) {
      t.yield_same(value);
    } else {
      t.yield_view(value, "aten.expand.default", {wanted});
    }
  }
  return true;
}

// Concatenated along an axis, once each has as many axes as that takes. One that has is returned as it is.
bool stack(Retrace& t, const FxCall& c) {
  const FxCall::Given* tensors = c.find("tensors");
  if (tensors == nullptr || tensors->values.empty()) return false;
  const bool columns = c.op == "aten.column_stack", lines = t.facts(tensors->values.front()).rank() <= 1;
  const char* ranked = "aten.atleast_1d.Sequence";
  std::string axis = columns || !lines ? "1" : "";
  if (c.op == "aten.vstack") ranked = "aten.atleast_2d.Sequence", axis = "";
  if (c.op == "aten.dstack") ranked = "aten.atleast_3d.Sequence", axis = "2";
  std::vector<std::string> nodes = nodes_in(tensors->text);
  for (std::size_t i = 0; columns && i < nodes.size() && i < tensors->values.size(); ++i) {
    const std::vector<std::int64_t> sizes = t.facts(tensors->values[i]).sizes;
    if (sizes.size() > 1) continue;
    nodes[i] = t.emit("aten.view.default", {nodes[i], list_text({sizes.empty() ? 1 : sizes.front(), 1})});
  }
  const std::vector<std::string> taken = t.items(t.emit(ranked, {list_of(nodes)}), nodes.size());
  const std::int64_t rank = c.op == "aten.vstack" ? 2 : c.op == "aten.dstack" ? 3 : columns ? 2 : 1;
  for (std::size_t i = 0; i < taken.size() && i < tensors->values.size(); ++i) {
    if (t.facts(tensors->values[i]).rank() >= rank) t.read_from(tensors->values[i], taken[i]);
  }
  Arguments arguments = {list_of(taken)};
  if (!axis.empty()) arguments.push_back(axis);
  return t.yield(t.emit("aten.cat.default", arguments)), true;
}

// Slices after each other; the axis is that of the operator's name or of its argument.
bool split(Retrace& t, const FxCall& c) {
  const TensorFacts whole = t.facts(self(c));
  std::int64_t axis = axis_of(c, "dim", whole.rank());
  if (c.op == "aten.hsplit") axis = whole.rank() > 1 ? 1 : 0;
  if (c.op == "aten.vsplit") axis = 0;
  if (c.op == "aten.dsplit") axis = 2;
  if (axis < 0 || axis >= whole.rank() || c.overload.starts_with("tensor")) return false;
  std::int64_t start = 0;
  std::vector<std::array<std::int64_t, 2>> pieces;
  for (const std::string_view result : c.results) {
    const std::vector<std::int64_t> sizes = t.facts(result).sizes;
    if (axis >= static_cast<std::int64_t>(sizes.size()) || sizes[axis] < 0) return false;
    pieces.push_back({start, start + sizes[axis]});
    start += sizes[axis];
  }
  if (start != whole.sizes[axis]) return false;
  const std::string along = std::to_string(axis);
  for (const auto& [from, to] : pieces) {
    t.yield_view(self(c), "aten.slice.Tensor", {along, std::to_string(from), std::to_string(to)});
  }
  return true;
}

// Of three matrices: in the order that takes fewer multiplications.
bool chain(Retrace& t, const FxCall& c) {
  const FxCall::Given* matrices = c.find(c.find("matrices") != nullptr ? "matrices" : "tensors");
  if (matrices == nullptr) return false;
  const std::vector<std::string> nodes = nodes_in(matrices->text);
  if (nodes.size() != 3 || matrices->values.size() != 3) return false;
  std::vector<std::int64_t> sizes;
  for (const std::string_view value : matrices->values) {
    const TensorFacts facts = t.facts(value);
    if (facts.rank() != 2 || facts.sizes[0] < 0 || facts.sizes[1] < 0) return false;
    sizes.insert(sizes.end(), facts.sizes.begin(), facts.sizes.end());
  }
  const double a = static_cast<double>(sizes[0]), b = static_cast<double>(sizes[1]), d = static_cast<double>(sizes[3]),
               e = static_cast<double>(sizes[5]);
  const auto product = [&](const std::string& x, const std::string& y) { return t.emit("aten.mm.default", {x, y}); };
  const bool front_first = a * d * (b + e) < b * e * (a + d);
  const std::string whole =
      front_first ? product(product(nodes[0], nodes[1]), nodes[2]) : product(nodes[0], product(nodes[1], nodes[2]));
  return t.yield(t.emit("aten.view.default", {whole, t.sizes_text(c.results.front())})), true;
}

constexpr auto table = std::to_array<RuleRow>({
    {"aten.broadcast_tensors", broadcast_tensors},
    {"aten.chain_matmul", chain},
    {"aten.column_stack", stack},
    {"aten.dsplit", split},
    {"aten.dstack", stack},
    {"aten.hsplit", split},
    {"aten.hstack", stack},
    {"aten.tensor_split", split},
    {"aten.vsplit", split},
    {"aten.vstack", stack},
});

}  // namespace

std::span<const RuleRow> joining_rules() { return table; }

}  // namespace whence
