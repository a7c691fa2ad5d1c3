#include "annotator/lower/views.h"

#include <utility>

#include "annotator/convert/op_table.h"
#include "annotator/program/program_edit.h"
#include "schema/operator_facts.h"
#include "schema/place.h"

namespace whence::lower {

namespace {

// Returns true for an einsum that sums over an axis: its result is not a view. An einsum without a sum permutes its
// operand or takes a diagonal.
bool sums(const Node& einsum) {
  const Argument* equation = einsum.find("equation");
  const auto* text = equation == nullptr ? nullptr : equation->as<std::string>();
  const std::size_t arrow = text == nullptr ? std::string::npos : text->find("->");
  if (arrow == std::string::npos) return false;
  return text->substr(0, arrow).find_first_not_of(text->substr(arrow) + " ") != std::string::npos;
}

// Operators that may return views of the elements of a list, although their schemas do not state it: each result may
// share memory with the operand at its position.
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

// Handles a view that has no converter, and so no schema here, or whose schema in ATen does not mark it as a view.
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
  const WriteSteps& steps;

  // scatter(self=old_base, src=written, <the view's other arguments>)
  Node scatter(std::string target) const {
    std::vector<NamedArgument> arguments{{"self", value(old_base)}, {"src", value(written)}};
    for (const NamedArgument& given : view.arguments) {
      if (given.name != argument) arguments.push_back(given);
    }
    return program::node_like(view, std::move(target), "", std::move(arguments));
  }

  // Applies the inverse operator to the written value.
  Node inverse(std::string target, std::string overload, std::vector<NamedArgument> more = {}) const {
    std::vector<NamedArgument> arguments{{"self", value(written)}};
    std::move(more.begin(), more.end(), std::back_inserter(arguments));
    return program::node_like(view, std::move(target), std::move(overload), std::move(arguments));
  }

  std::optional<std::int64_t> integer(std::string_view name,
                                      std::optional<std::int64_t> otherwise = std::nullopt) const {
    const Argument* found = view.find(name);
    return found == nullptr ? otherwise : known_integer(program, *found);
  }
};

std::optional<Node> itself(const Write& w) {
  return w.inverse(w.view.target, w.view.overload,
                   {w.view.arguments.begin() + 1, w.view.arguments.end()});  // swapping axes is its own inverse
}

std::optional<Node> permute(const Write& w) {
  const Argument* dims = w.view.find("dims");
  const auto* list = dims == nullptr ? nullptr : dims->as<ArgumentList>();
  if (list == nullptr) return std::nullopt;
  ArgumentList inverse(list->size());
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto axis = known_integer(w.program, (*list)[i]);
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
  // For a start counted from the end, an end of 0 would mean the beginning.
  if (*start >= 0 || *start + *length < 0) node.arguments.push_back({"end", Argument{*start + *length}});
  return node;
}

// Writes one part of a split or chunk: it starts at the sum of the sizes before it.
std::optional<Node> part_along(const Write& w, std::optional<std::int64_t> dim) {
  if (!dim) return std::nullopt;
  Size start = 0, end = 0;
  for (std::size_t i = 0; i <= w.output; ++i) {
    const auto& dims = w.program.values[w.view.outputs[i]].type.dims;
    const std::int64_t axis = *dim < 0 && dims ? *dim + static_cast<std::int64_t>(dims->size()) : *dim;
    if (!dims || axis < 0 || axis >= static_cast<std::int64_t>(dims->size())) return std::nullopt;
    const Dim& length = (*dims)[static_cast<std::size_t>(axis)];
    const Size size =
        length.is_static() ? Size(length.size) : local_symbol({w.view.outputs[i], static_cast<int>(axis)});
    start = std::exchange(end, end + size);
  }
  const auto first = w.steps.number(start), last = w.steps.number(end);
  if (!first || !last) return std::nullopt;
  Node node = w.scatter("aten::slice_scatter");
  node.arguments.resize(2);
  for (auto& [name, number] : {std::pair{"dim", Argument{*dim}}, {"start", *first}, {"end", *last}}) {
    node.arguments.push_back({name, number});
  }
  return node;
}

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

// Writes windows that do not overlap: the first elements of all windows form a range with a step, so do the second
// ones. A window may have at most 64 elements, because each takes two operations.
std::optional<Node> windows(const Write& w) {
  constexpr std::int64_t max_elements = 64;
  const auto given = w.integer("dimension"), size = w.integer("size"), step = w.integer("step");
  Type part = w.program.values[w.written].type;
  if (!given || !size || !step || !part.dims || part.dims->size() < 2) return std::nullopt;
  if (*size < 1 || *step < *size || *size > max_elements) return std::nullopt;
  part.dims->pop_back();
  const auto rank = static_cast<std::int64_t>(part.dims->size());
  const std::int64_t axis = *given < 0 ? *given + rank : *given;
  if (axis < 0 || axis >= rank) return std::nullopt;
  const Dim count = part.dims->at(static_cast<std::size_t>(axis));
  const Size windows = count.is_static() ? Size(count.size) : local_symbol({w.view.outputs[0], static_cast<int>(axis)});
  const auto end = w.steps.number(windows * *step);
  if (!end) return std::nullopt;
  const Type whole = w.program.values[w.old_base].type;
  ValueId base = w.old_base;
  for (std::int64_t place = 0;; ++place) {
    Node taken = w.inverse("aten::select", "int", {{"dim", Argument{std::int64_t{-1}}}, {"index", Argument{place}}});
    const ValueId elements = w.steps.add(std::move(taken), part);
    Node put = program::node_like(w.view, "aten::slice_scatter", "",
                                  {{"self", value(base)},
                                   {"src", value(elements)},
                                   {"dim", Argument{axis}},
                                   {"start", Argument{place}},
                                   {"end", *end},
                                   {"step", Argument{*step}}});
    if (place + 1 == *size) return put;
    base = w.steps.add(std::move(put), whole);
  }
}

// x.expand(1, -1, -1)
bool only_adds_ones(const Write& w) {
  const auto base = sizes_of(w.program, w.old_base), view = sizes_of(w.program, w.view.outputs[w.output]);
  if (!base || !view || view->size() < base->size()) return false;
  const auto first = view->end() - static_cast<std::ptrdiff_t>(base->size());
  return std::equal(first, view->end(), base->begin()) &&
         std::all_of(view->begin(), first, [](const Size& size) { return size == Size(1); });
}

std::optional<Node> by_form(const Write& w) {
  switch (facts_of(w.view.target).view) {
    case ViewForm::select:
      return w.scatter("aten::select_scatter");
    case ViewForm::unbind:
      return unbound(w);
    case ViewForm::slice:
      return w.scatter("aten::slice_scatter");
    case ViewForm::narrow:
      return narrow(w);
    case ViewForm::diagonal:
      return w.scatter("aten::diagonal_scatter");
    case ViewForm::part:
      return part_along(w, w.integer("dim", 0));
    case ViewForm::part_of_rows:
      return part_along(w, 0);
    case ViewForm::part_of_columns:
      return columns(w);
    case ViewForm::part_of_depth:
      return part_along(w, 2);
    case ViewForm::transpose:
    case ViewForm::transpose_last:
    case ViewForm::reverse_axes:
      return itself(w);
    case ViewForm::move_axes:
      return moved_axes(w);
    case ViewForm::permute:
      return permute(w);
    case ViewForm::unsqueeze:
      return unsqueezed(w);
    case ViewForm::reshape:
    case ViewForm::contiguous:
      return back_to_shape(w);
    case ViewForm::as_real:
      return w.inverse("aten::view_as_complex", "");
    case ViewForm::as_complex:
      return w.inverse("aten::view_as_real", "");
    case ViewForm::expand:  // otherwise elements of the view overlap
      return only_adds_ones(w) ? back_to_shape(w) : std::nullopt;
    case ViewForm::unfold:
      return windows(w);
    case ViewForm::none:
    case ViewForm::as_strided:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

ViewInfo view_info(const Program& program, const Node& node) {
  if (node.outputs.empty() || node.arguments.empty()) return {};
  const OperatorFacts& facts = facts_of(node.target);
  if (facts.memory == ResultMemory::elements) return viewed_in_list(node);
  const bool by_strides = shares_by_strides(node);
  if (returns_argument(program, node)) {
    const NamedArgument& first = node.arguments.front();
    const auto* viewed = first.value.as<ValueRef>();
    if (viewed == nullptr) return {};
    return {by_strides ? ViewKind::perhaps : ViewKind::same, first.name, {viewed->id}};
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
    return {by_strides ? ViewKind::perhaps : ViewKind::view, argument.name, {viewed->id}};
  }
  return {};
}

std::optional<Node> write_through(const Program& program, const Node& view, std::size_t output,
                                  const std::string& argument, ValueId old_base, ValueId written,
                                  const WriteSteps& steps) {
  // A view as another dtype reinterprets bytes, so a write through it has no value to store.
  if (view.target == "aten::view" && view.overload == "dtype") return std::nullopt;
  return by_form(Write{program, view, output, argument, old_base, written, steps});
}

}  // namespace whence::lower
