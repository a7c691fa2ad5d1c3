#include "annotator/lower/views.h"

#include <numeric>
#include <unordered_map>
#include <utility>

#include "annotator/convert/op_table.h"
#include "annotator/program/program_edit.h"
#include "schema/operator_facts.h"
#include "schema/written_views.h"

namespace whence::lower {

namespace {

// True if this call of an operator gives its argument back, though its schema does not say so or says less.
bool returns_argument(const Program& program, const Node& node) {
  const OperatorFacts& facts = facts_of(node.target);
  if (facts.memory != ResultMemory::argument) return false;
  if (facts.identity == Identity::not_training) {
    const Argument* train = node.find("train");
    return train != nullptr && program::known_flag(program, *train) == false;
  }
  if (facts.identity != Identity::same_dtype) return true;
  const auto* viewed = node.arguments.front().value.as<ValueRef>();
  const Argument* copy = node.find("copy");
  const bool copies = copy != nullptr && program::known_flag(program, *copy).value_or(false);
  return viewed != nullptr && !copies &&
         program.values[viewed->id].type.dtype == program.values[node.outputs.front()].type.dtype;
}

// True for an einsum that sums over an axis: then its result is new. One that does not permutes its operand, or takes a
// diagonal.
bool sums(const Node& einsum) {
  const Argument* equation = einsum.find("equation");
  const auto* text = equation == nullptr ? nullptr : equation->as<std::string>();
  const std::size_t arrow = text == nullptr ? std::string::npos : text->find("->");
  if (arrow == std::string::npos) return false;
  return text->substr(0, arrow).find_first_not_of(text->substr(arrow) + " ") != std::string::npos;
}

// Operators that make views of the elements of a list, of which nothing in their schemas says so: each result may share
// the memory of the operand of its number.
ViewInfo viewed_in_list(const Node& node) {
  const Argument* tensors = node.find("tensors");
  const auto* operands = tensors == nullptr ? nullptr : tensors->as<ArgumentList>();
  if (operands == nullptr || operands->size() != node.outputs.size()) return {};
  if (node.target == "aten::einsum" && sums(node)) return {};
  ViewInfo view{ViewKind::perhaps, "tensors", {}};
  for (const Argument& operand : *operands) {
    const auto* viewed = operand.as<ValueRef>();
    if (viewed == nullptr) return {};
    view.viewed.push_back(viewed->id);
  }
  return view;
}

// A view that has no converter, and so no schema here, or whose schema in ATen does not say that it is one.
ViewInfo viewed_first(const Program& program, const Node& node) {
  if (facts_of(node.target).memory != ResultMemory::view) return {};
  const NamedArgument& first = node.arguments.front();
  if (first.value.as<ArgumentList>() != nullptr) return viewed_in_list(node);
  const auto* viewed = first.value.as<ValueRef>();
  const bool tensor = viewed != nullptr && program.values[viewed->id].type.kind == ValueKind::tensor;
  return tensor ? ViewInfo{ViewKind::view, first.name, {viewed->id}} : ViewInfo{};
}

Argument value(ValueId id) { return Argument{ValueRef{id}}; }

// One write to a view, and the steps that express it.
struct Write {
  const Program& program;
  const Node& view;
  std::size_t output;
  std::string argument;
  ValueId old_base, written;

  // scatter(self=old_base, src=written, <the view's other arguments>)
  Node scatter(std::string target) const {
    std::vector<NamedArgument> arguments{{"self", value(old_base)}, {"src", value(written)}};
    for (const NamedArgument& given : view.arguments) {
      if (given.name != argument) arguments.push_back(given);
    }
    return program::node_like(view, std::move(target), "", std::move(arguments));
  }

  // The inverse operator, applied to what was written.
  Node inverse(std::string target, std::string overload, std::vector<NamedArgument> more = {}) const {
    std::vector<NamedArgument> arguments{{"self", value(written)}};
    std::move(more.begin(), more.end(), std::back_inserter(arguments));
    return program::node_like(view, std::move(target), std::move(overload), std::move(arguments));
  }

  std::optional<std::int64_t> integer(std::string_view name,
                                      std::optional<std::int64_t> otherwise = std::nullopt) const {
    const Argument* found = view.find(name);
    return found == nullptr ? otherwise : program::known_integer(program, *found);
  }
};

using WriteRule = std::optional<Node> (*)(const Write&);

std::optional<Node> itself(const Write& w) {
  return w.inverse(w.view.target, w.view.overload,
                   {w.view.arguments.begin() + 1, w.view.arguments.end()});  // an exchange of axes undoes itself
}

std::optional<Node> permute(const Write& w) {
  const Argument* dims = w.view.find("dims");
  const auto* list = dims == nullptr ? nullptr : dims->as<ArgumentList>();
  if (list == nullptr) return std::nullopt;
  ArgumentList inverse(list->size());
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto axis = program::known_integer(w.program, (*list)[i]);
    if (!axis) return std::nullopt;
    const auto rank = static_cast<std::int64_t>(list->size());
    inverse[static_cast<std::size_t>(*axis < 0 ? *axis + rank : *axis)] = Argument{static_cast<std::int64_t>(i)};
  }
  return w.inverse("aten::permute", "", {{"dims", Argument{inverse}}});
}

std::optional<Node> back_to_shape(const Write& w) {
  return w.inverse("aten::reshape_as", "", {{"other", value(w.old_base)}});
}

std::optional<Node> unsqueezed(const Write& w) {
  const Argument* dim = w.view.find("dim");
  return dim == nullptr ? std::nullopt : std::optional(w.inverse("aten::squeeze", "dim", {{"dim", *dim}}));
}

std::optional<Node> narrow(const Write& w) {
  const auto dim = w.integer("dim"), start = w.integer("start"), length = w.integer("length");
  if (!dim || !start || !length) return std::nullopt;
  Node node = w.scatter("aten::slice_scatter");
  node.arguments.resize(2);  // self, src
  node.arguments.push_back({"dim", Argument{*dim}});
  node.arguments.push_back({"start", Argument{*start}});
  // Counted from the back, an end of 0 would be the beginning.
  if (*start >= 0 || *start + *length < 0) node.arguments.push_back({"end", Argument{*start + *length}});
  return node;
}

// One part of a split, a chunk: its place is the sum of the sizes before it.
std::optional<Node> part_along(const Write& w, std::optional<std::int64_t> dim) {
  if (!dim) return std::nullopt;
  std::int64_t start = 0, end = 0;
  for (std::size_t i = 0; i <= w.output; ++i) {
    const auto& dims = w.program.values[w.view.outputs[i]].type.dims;
    if (!dims) return std::nullopt;
    const Dim& size =
        (*dims)[static_cast<std::size_t>(*dim < 0 ? *dim + static_cast<std::int64_t>(dims->size()) : *dim)];
    if (!size.is_static()) return std::nullopt;
    start = std::exchange(end, end + size.size);
  }
  Node node = w.scatter("aten::slice_scatter");
  node.arguments.resize(2);
  for (auto& [name, number] : {std::pair{"dim", *dim}, {"start", start}, {"end", end}}) {
    node.arguments.push_back({name, Argument{number}});
  }
  return node;
}

std::optional<Node> part(const Write& w) { return part_along(w, w.integer("dim", 0)); }

std::optional<Node> columns(const Write& w) {
  const auto& dims = w.program.values[w.old_base].type.dims;
  return dims ? part_along(w, dims->size() == 1 ? 0 : 1) : std::nullopt;
}

std::optional<Node> moved_axes(const Write& w) {
  const Argument *source = w.view.find("source"), *destination = w.view.find("destination");
  if (source == nullptr || destination == nullptr) return std::nullopt;
  return w.inverse("aten::movedim", w.view.overload, {{"source", *destination}, {"destination", *source}});
}

std::optional<Node> unbound(const Write& w) {
  const auto dim = w.integer("dim", 0);
  if (!dim) return std::nullopt;
  Node node = w.scatter("aten::select_scatter");
  node.arguments.resize(2);
  node.arguments.push_back({"dim", Argument{*dim}});
  node.arguments.push_back({"index", Argument{static_cast<std::int64_t>(w.output)}});
  return node;
}

const std::unordered_map<std::string_view, WriteRule>& write_rules() {
  static const std::unordered_map<std::string_view, WriteRule> table{
      {"aten::select", [](const Write& w) { return std::optional(w.scatter("aten::select_scatter")); }},
      {"aten::slice", [](const Write& w) { return std::optional(w.scatter("aten::slice_scatter")); }},
      {"aten::diagonal", [](const Write& w) { return std::optional(w.scatter("aten::diagonal_scatter")); }},
      {"aten::narrow", narrow},
      {"aten::split", part},
      {"aten::split_with_sizes", part},
      {"aten::tensor_split", part},
      {"aten::chunk", part},
      {"aten::unsafe_chunk", part},
      {"aten::unsafe_split", part},
      {"aten::unsafe_split_with_sizes", part},
      {"aten::hsplit", columns},
      {"aten::vsplit", [](const Write& w) { return part_along(w, 0); }},
      {"aten::dsplit", [](const Write& w) { return part_along(w, 2); }},
      {"aten::unbind", unbound},
      {"aten::adjoint", itself},
      {"aten::mH", itself},
      {"aten::matrix_H", itself},
      {"aten::mT", itself},
      {"aten::moveaxis", moved_axes},
      {"aten::movedim", moved_axes},
      {"aten::view_as_complex", [](const Write& w) { return std::optional(w.inverse("aten::view_as_real", "")); }},
      {"aten::view_as_real", [](const Write& w) { return std::optional(w.inverse("aten::view_as_complex", "")); }},
      {"aten::atleast_1d", back_to_shape},
      {"aten::atleast_2d", back_to_shape},
      {"aten::atleast_3d", back_to_shape},
      {"aten::numpy_T", itself},
      {"aten::permute", permute},
      {"aten::swapaxes", itself},
      {"aten::swapdims", itself},
      {"aten::t", itself},
      {"aten::transpose", itself},
      {"aten::_reshape_alias", back_to_shape},
      {"aten::contiguous", back_to_shape},
      {"aten::flatten", back_to_shape},
      {"aten::ravel", back_to_shape},
      {"aten::reshape", back_to_shape},
      {"aten::reshape_as", back_to_shape},
      {"aten::squeeze", back_to_shape},
      {"aten::unflatten", back_to_shape},
      {"aten::unsqueeze", unsqueezed},
      {"aten::view", back_to_shape},
      {"aten::view_as", back_to_shape},
  };
  return table;
}

struct Range {
  std::int64_t dim = 0, start = 0, end = 0;
};

// The elements that x[2] and x[2:5] take along an axis; nullopt for places that count from the back or are computed.
std::optional<Range> range_of(const Program& program, const Node& view) {
  const auto number = [&](const char* name) -> std::optional<std::int64_t> {
    const Argument* given = view.find(name);
    const auto value = given == nullptr ? std::nullopt : program::known_integer(program, *given);
    return value && *value >= 0 ? value : std::nullopt;
  };
  const Argument* along = view.find("dim");
  const auto dim = along == nullptr ? std::nullopt : program::known_integer(program, *along);
  if (view.target == "aten::select") {
    const auto index = number("index");
    return dim && index ? std::optional(Range{*dim, *index, *index + 1}) : std::nullopt;
  }
  if (view.target != "aten::slice") return std::nullopt;
  const Argument* end = view.find("end");
  const auto open = end == nullptr || end->is_none() ? std::optional(INT64_MAX) : number("end");
  const Argument* given = view.find("start");
  const auto start = given == nullptr || given->is_none() ? std::optional<std::int64_t>(0) : number("start");
  return dim && start && open ? std::optional(Range{*dim, *start, *open}) : std::nullopt;
}

}  // namespace

ViewInfo view_info(const Program& program, const Node& node) {
  if (node.outputs.empty() || node.arguments.empty()) return {};
  const OperatorFacts& facts = facts_of(node.target);
  if (facts.memory == ResultMemory::elements) return viewed_in_list(node);
  const Argument* memory = node.find(memory_argument);
  const bool by_strides = shares_by_strides(node);
  if (by_strides && memory != nullptr && memory->is_none()) return {};  // a copy
  if (returns_argument(program, node)) {
    const NamedArgument& first = node.arguments.front();
    const auto* viewed = first.value.as<ValueRef>();
    if (viewed == nullptr) return {};
    return {by_strides && memory == nullptr ? ViewKind::perhaps : ViewKind::same, first.name, {viewed->id}};
  }
  if (facts.memory == ResultMemory::argument) return {};
  const OpSchema* schema = convert::OpTable::get().schema(qualified(node));
  if (schema == nullptr || schema->returns.empty() || !schema->returns.front().type.views()) {
    return viewed_first(program, node);
  }
  for (const SchemaArgument& argument : schema->arguments) {
    if (!argument.type.views()) continue;
    const Argument* given = node.find(argument.name);
    const auto* viewed = given == nullptr ? nullptr : given->as<ValueRef>();
    if (viewed == nullptr) return {};
    const bool known = !by_strides || memory != nullptr;
    return {known ? ViewKind::view : ViewKind::perhaps, argument.name, {viewed->id}};
  }
  return {};
}

bool takes_other_range(const Program& program, const Node& one, const Node& other) {
  const auto range = range_of(program, one), too = range_of(program, other);
  return range && too && range->dim == too->dim && (range->end <= too->start || too->end <= range->start);
}

std::optional<Node> write_through(const Program& program, const Node& view, std::size_t output,
                                  const std::string& argument, ValueId old_base, ValueId written) {
  const auto rule = write_rules().find(view.target);
  // Bytes under another dtype cannot be written through by value.
  if (rule == write_rules().end() || (view.target == "aten::view" && view.overload == "dtype")) return std::nullopt;
  return rule->second(Write{program, view, output, argument, old_base, written});
}

}  // namespace whence::lower
