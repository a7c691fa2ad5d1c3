// add_(x, 1); y = f(x)               ->   x1 = add(x, 1); y = f(x1)
// v = x[0]; v.copy_(s); y = f(x)     ->   x1 = select_scatter(x, s, 0, 0); y = f(x1)
//
// Turns in-place writes into values. memory.h tracks the content of every tensor; written_branches.cpp and
// written_loops.cpp handle branches and loops that write.
#include <string_view>
#include <utility>
#include <vector>

#include "annotator/lower/functionalizer.h"
#include "annotator/lower/in_place.h"
#include "annotator/lower/overlaps.h"
#include "annotator/lower/pipeline.h"
#include "annotator/lower/size_conditions.h"
#include "annotator/program/program_edit.h"
#include "schema/operator_facts.h"
#include "schema/place.h"
#include "schema/program_walk.h"

namespace whence::lower {

namespace {

bool writes_list(const Node& node) { return written_argument(node).as<ArgumentList>() != nullptr; }

bool is_computed_range(const Program& program, const Node& node) {
  if (node.target != "aten::narrow") return false;
  const Argument *self = node.find("self"), *dim = node.find("dim"), *start = node.find("start"),
                 *length = node.find("length");
  if (!self || !self->as<ValueRef>() || !dim || !start || !length || node.outputs.size() != 1) return false;
  return !known_integer(program, *start) || !known_integer(program, *length);
}

bool is_broadcast(const Node& node) {
  if (node.target != "aten::broadcast_tensors" || node.arguments.empty()) return false;
  const auto* tensors = node.arguments.front().value.as<ArgumentList>();
  const auto is_value = [](const Argument& each) { return each.as<ValueRef>() != nullptr; };
  return tensors != nullptr && tensors->size() == node.outputs.size() && std::ranges::all_of(*tensors, is_value);
}

// Returns true for a view that covers its whole base in the same element order, whatever its strides: x[:],
// x.expand_as(x).
bool is_all_of(const Program& program, const Node& view, ValueId base) {
  const auto base_layout = with_separate_axes(program, base);
  return base_layout && view.outputs.size() == 1 && arrangement_of_view(program, view, 0, *base_layout) == base_layout;
}

}  // namespace

void Functionalizer::run() {
  memory_.sink = &program_.body.nodes;
  run(program_.body);
  for (ProgramOutput& output : program_.outputs) {  // nodes that recompute an output are added at the end
    if (const auto* value = output.value.as<ValueRef>()) reports_.withdraw_write(memory_.renamed(value->id));
    memory_.resolve(output.value);
  }
  reports_.finish();
}

// Leaves the block's outputs unresolved, because block_ends() must be called before they are resolved.
void Functionalizer::run(Block& block) {
  std::vector<Node> nodes = std::move(block.nodes);
  block.nodes.clear();
  block.nodes.reserve(nodes.size());
  for (const ValueId input : block.inputs) memory_.define(input);
  for (Node& node : nodes) {
    for (const ValueId output : node.outputs) memory_.define(output);
    memory_.origin = node.origin;
    step(std::move(node));
  }
}

// narrow(x, d, start, length)   ->   slice(slice(x, d, start), d, 0, length)
//
// A write through a range with computed ends becomes a write through two slices. A single slice would be wrong for a
// start that counts from the end: the slice's end could be 0, which means the beginning.
std::vector<Node> Functionalizer::as_slices(const Node& narrow) {
  const Argument self = *narrow.find("self"), dim = *narrow.find("dim");
  const auto slice = [&](Argument of, Argument start, Argument end) {
    return program::node_like(narrow, "aten::slice", "Tensor",
                              {{"self", std::move(of)},
                               {"dim", dim},
                               {"start", std::move(start)},
                               {"end", std::move(end)},
                               {"step", {std::int64_t{1}}}});
  };
  const ValueId tail = memory_.fresh_like(self.as<ValueRef>()->id);
  if (auto& dims = program_.values[tail].type.dims) {
    const auto axis = known_integer(program_, dim);
    for (std::size_t i = 0; i < dims->size(); ++i) {
      const auto index = static_cast<std::int64_t>(i);
      const bool cut = !axis || *axis == index || *axis + static_cast<std::int64_t>(dims->size()) == index;
      if (cut) (*dims)[i] = Dim{-1, true};
    }
  }
  std::vector<Node> slices{slice(self, *narrow.find("start"), {}),
                           slice({ValueRef{tail}}, {std::int64_t{0}}, *narrow.find("length"))};
  slices[0].outputs = {tail};
  slices[1].outputs = narrow.outputs;
  return slices;
}

// broadcast_tensors(x, y)   ->   expand_as(x, shape), expand_as(y, shape)
//
// Takes the shape from an argument that has it, otherwise from a result of the operation.
std::vector<Node> Functionalizer::as_expands(Node broadcast) {
  const ArgumentList tensors = *broadcast.arguments.front().value.as<ArgumentList>();
  const std::vector<ValueId> results = broadcast.outputs;
  std::vector<Node> expands;
  const auto has_shape = [&](const Argument& tensor) {
    return program::same_shape(program_.values[tensor.as<ValueRef>()->id].type, program_.values[results[0]].type);
  };
  const auto shaped = std::ranges::find_if(tensors, has_shape);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Argument shape = shaped != tensors.end() ? *shaped : Argument{ValueRef{memory_.fresh_like(results[i])}};
    expands.push_back(program::node_like(broadcast, "aten::expand_as", "", {{"self", tensors[i]}, {"other", shape}}));
    expands.back().outputs = {results[i]};
    broadcast.outputs[i] = shape.as<ValueRef>()->id;
  }
  if (shaped == tensors.end()) {
    memory_.resolve(broadcast.arguments.front().value);
    memory_.sink->push_back(std::move(broadcast));
  }
  return expands;
}

void Functionalizer::step(Node node) {
  const bool broadcasts = is_broadcast(node);
  if (broadcasts || is_computed_range(program_, node)) {
    for (Node& part : broadcasts ? as_expands(std::move(node)) : as_slices(node)) step(std::move(part));
    return;
  }
  if (is_in_place(node)) return writes_list(node) ? write_list(node) : write(node);
  if (only_writes(node)) {
    reports_.report(reports_.refusal(node, "it returns nothing and only writes to its arguments"));
  }
  if (node.target == "prim::If") return branch(std::move(node));
  if (node.target == "prim::Loop") return loop(std::move(node));
  ViewInfo view = view_info(program_, node);
  std::vector<ValueId> bases;
  for (std::size_t i = 0; i < node.outputs.size() && view.kind != ViewKind::none; ++i) {
    bases.push_back(memory_.renamed(view.viewed_by(i)));
  }
  if (node.target == "aten::as_strided" && !bases.empty()) bases[0] = read_whole_memory(node, bases[0]);
  const Sharing sharing = view.kind == ViewKind::perhaps && shares_by_strides(node)
                              ? sharing_of(program_, node, memory_.place(bases[0]))
                              : Sharing();
  if (sharing.kind == Sharing::Kind::copy) view.kind = ViewKind::none;
  if (sharing.kind == Sharing::Kind::view)
    view.kind = returns_argument(program_, node) ? ViewKind::same : ViewKind::view;
  if (view.kind == ViewKind::view && is_all_of(program_, node, bases[0])) view.kind = ViewKind::same;
  const int shape_only = view.kind == ViewKind::none ? facts_of(node.target).shape_only : -1;
  if (view.kind == ViewKind::none) {
    for (const ValueId other : sharing_elements(node)) {
      const char* why = "a tensor in a list of data-dependent length is written in place";
      memory_.doubt(node.outputs.front(), other, reports_.refusal(node, why));
    }
  }
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    Argument& argument = node.arguments[i].value;
    std::cmp_equal(i, shape_only) ? memory_.resolve_shape(argument) : memory_.resolve(argument);
  }
  if (sharing.kind == Sharing::Kind::depends) {
    memory_.sink->push_back(node);
    const auto guard = view_guard(node, bases[0], sharing.condition);
    return guard ? memory_.add_possible_view(node, bases[0], view.argument, *guard)
                 : memory_.add_views(node, bases, view);
  }
  if (view.kind != ViewKind::none) memory_.add_views(node, bases, view);
  memory_.sink->push_back(std::move(node));
}

// Returns the condition, computed from shapes, under which a reshape is a view of its base.
std::optional<Memory::Guard> Functionalizer::view_guard(const Node& node, ValueId base,
                                                        const std::vector<Constraint>& condition) {
  std::vector<ValueId> tensors{base, node.outputs.front()};
  for (const Memory::View* at = memory_.view(base); at != nullptr; at = memory_.view(at->base)) {
    tensors.push_back(at->base);
  }
  const auto holds = SizeConditions(program_, memory_, std::move(tensors)).all_hold(condition);
  return holds ? std::optional(Memory::Guard{*holds, true}) : std::nullopt;
}

// as_strided(x.t(), ...)   ->   as_strided(x, ...)
//
// as_strided indexes memory directly, whatever the offset and strides of its argument. Memory with axes in another
// order is permuted first. Returns the tensor that the node reads.
ValueId Functionalizer::read_whole_memory(Node& node, ValueId base) {
  const auto layout = memory_.place(base);
  if (!layout || (memory_.view(base) == nullptr && is_row_major(*layout) && layout->offset == Size(0))) return base;
  const ValueId owner = memory_.owner(base), source = memory_.place(owner) ? owner : base;
  const auto memory = memory_.place(source);
  const auto order = memory ? order_in_memory(*memory) : std::nullopt;
  const Argument* offset = node.find("storage_offset");
  const bool has_offset = offset != nullptr && !offset->is_none();
  if (!order || memory->offset != Size(0) || (!has_offset && !layout->offset.is_integer())) {
    reports_.report(reports_.refusal(node, "it reads memory that has gaps or an unknown order of axes"));
    return base;
  }
  std::erase_if(node.arguments,
                [&](const NamedArgument& each) { return !has_offset && each.name == "storage_offset"; });
  if (!has_offset) node.arguments.push_back({"storage_offset", {layout->offset.number()}});
  node.arguments.front().value = {ValueRef{source}};
  if (is_row_major(*memory)) return source;
  ArgumentList axes;
  for (const std::size_t axis : *order) axes.push_back({static_cast<std::int64_t>(axis)});
  Node permuted = program::node_like(node, "aten::permute", "", {{"self", {ValueRef{source}}}, {"dims", {axes}}});
  permuted.outputs = {memory_.fresh_like(source)};
  auto& dims = program_.values[permuted.outputs.front()].type.dims;
  if (dims) {
    for (std::size_t i = 0; i < order->size(); ++i) (*dims)[i] = (*program_.values[source].type.dims)[(*order)[i]];
  }
  node.arguments.front().value = {ValueRef{permuted.outputs.front()}};
  const ValueId result = permuted.outputs.front();
  step(std::move(permuted));
  return result;
}

// If the node adds a tensor to a list of data-dependent length or reads one from it, returns the values that may share
// memory with its result: the element's index depends on data too. An ONNX sequence contains copies.
std::vector<ValueId> Functionalizer::sharing_elements(const Node& node) const {
  std::vector<ValueId> found;
  const auto is_list = [&](ValueId id) { return program_.values[id].type.kind == ValueKind::sequence; };
  if (node.outputs.size() != 1 || node.list_output) return found;
  if (!is_list(node.outputs.front()) && node.target != "aten::__getitem__") return found;
  each_operand(node, [&](ValueId id) {
    if (is_list(id) || program_.values[id].type.kind == ValueKind::tensor) found.push_back(memory_.renamed(id));
  });
  return found;
}

void Functionalizer::warn_of_write(const Node& node, ValueId self) {
  for (const ValueId memory : memory_.memories(self)) reports_.warn_of_write(node, memory);
  for (const Memory::Suspect& other : memory_.possible_aliases(self)) reports_.warn_of_write(node, other.memory);
}

// y[1:] = y[:-1]: PyTorch's result depends on the order in which it accesses memory, and on the device. The value
// written here is computed from the contents before the write.
void Functionalizer::warn_of_overlap(const Node& node, ValueId self) {
  const auto target = memory_.layout(self);
  if (!target) return;
  bool overlaps = false;
  const auto look = [&](ValueId read) {
    const ValueId source = memory_.renamed(read);
    if (memory_.owner(source) != memory_.owner(self)) return;
    const auto source_layout = memory_.layout(source);
    overlaps |= source_layout &&
                reads_what_it_overwrites(program_, *target, *source_layout, !facts_of(node.target).reads_across);
  };
  for (const NamedArgument& argument : node.arguments) {
    if (&argument.value != &written_argument(node)) each_value(argument.value, look);
  }
  if (overlaps) reports_.warn_of_overlap(node);
}

// y[1:] += 1: Python writes the sum to y[1:], and then assigns y[1:] to itself.
bool Functionalizer::writes_to_itself(const Node& node, ValueId self) const {
  if (node.target != "aten::copy_" || node.arguments.size() < 2) return false;
  const auto* source = node.arguments[1].value.as<ValueRef>();
  return source != nullptr && memory_.same_place(self, memory_.renamed(source->id));
}

void Functionalizer::write(Node& node) {
  const Argument& target = written_argument(node);
  if (target.as<ValueRef>() == nullptr) return;  // a literal: nothing can read it afterwards
  const ValueId self = memory_.renamed(target.as<ValueRef>()->id);
  warn_of_write(node, self);
  warn_of_overlap(node, self);
  const ValueId result = node.outputs.empty() ? none_id : node.outputs.front();
  if (node.target == "aten::set_" && node.overload == "source_Tensor") return set_source(node, self, result);
  if (writes_to_itself(node, self)) return memory_.redirect(result, self);
  for (NamedArgument& argument : node.arguments) memory_.resolve(argument.value);
  Written written = functional_form(program_, node);
  if (written.node) {
    const bool typed = result != none_id && program_.values[result].type.dtype != DType::undefined;
    const ValueId renewed = memory_.fresh_like(typed ? result : self);
    if (result != none_id) program_.values[renewed].known = program_.values[result].known;
    written.node->outputs = {renewed};
    const ViewKind kind = view_info(program_, *written.node).kind;
    // dropout_(x) does nothing outside training. unsqueeze_(x) moves no data: from here on the name denotes a view of
    // the previous x.
    if (kind == ViewKind::same) return memory_.redirect(result, self);
    if (kind == ViewKind::view) {
      if (!may_change_shape(node, self)) return memory_.redirect(result, self);
      return memory_.rename(self, result, std::move(*written.node));
    }
    written.as_is = renewed;
    memory_.sink->push_back(std::move(*written.node));
  }
  memory_.redirect(result, self);  // returns the tensor itself, whose shape may change under either name
  if (node.target != "aten::detach_" && node.target != "aten::requires_grad_") memory_.put(self, written.as_is);
}

// _foreach_add_([x, y], 1)   ->   x1, y1 = _foreach_add([x, y], 1)
void Functionalizer::write_list(Node& node) {
  if (memory_.depth() > 0) {
    return reports_.report(reports_.refusal(node, "a branch or loop body writes to a list of tensors"));
  }
  std::vector<ValueId> written;
  for (const Argument& element : *written_argument(node).as<ArgumentList>()) {
    const auto* value = element.as<ValueRef>();
    if (value == nullptr) continue;
    written.push_back(memory_.renamed(value->id));
    warn_of_write(node, written.back());
  }
  for (NamedArgument& argument : node.arguments) memory_.resolve(argument.value);
  Node functional = std::move(*functional_form(program_, node).node);
  functional.list_output = true;
  for (const ValueId value : written) functional.outputs.push_back(memory_.fresh_like(value));
  const std::vector<ValueId> results = functional.outputs;
  memory_.sink->push_back(std::move(functional));
  for (std::size_t i = 0; i < written.size(); ++i) memory_.put(written[i], results[i]);
  for (std::size_t i = 0; i < node.outputs.size() && i < written.size(); ++i) {
    memory_.alias(node.outputs[i], written[i]);
  }
}

// x.set_(y): from here on x is another name for y.
void Functionalizer::set_source(const Node& node, ValueId self, ValueId result) {
  if (!may_change_shape(node, self)) return;
  const Argument* argument = node.find("source");
  const auto* value = argument == nullptr ? nullptr : argument->as<ValueRef>();
  if (value == nullptr) return reports_.report(reports_.refusal(node, "its source is not a tensor"));
  const ValueId source = memory_.renamed(value->id);
  memory_.redirect(self, source);
  memory_.redirect(result, source);
}

// Returns false and reports a tensor that has other names, which would keep the old shape: a tensor defined outside the
// current branch or loop body, or one chosen at run time among several.
bool Functionalizer::may_change_shape(const Node& node, ValueId self) {
  while (memory_.view(self) != nullptr && memory_.view(self)->kind == ViewKind::same) self = memory_.view(self)->base;
  const Memory::Choice* choice = memory_.choice(self);
  const bool inside = memory_.depth() == 0 || !memory_.is_defined_outside(self, memory_.depth() - 1);
  if (inside && choice == nullptr) return true;
  reports_.report(reports_.refusal(node, choice == nullptr
                                             ? "a branch or loop body changes the shape of a tensor defined outside it"
                                             : "the shape of a result of a branch or loop is changed"));
  return false;
}

void functionalize(Lowering& lowering) {
  const auto follows_memory = [](const Node& node) {
    return is_in_place(node) || only_writes(node) || node.target == "aten::as_strided";
  };
  if (program::any_node(lowering.program.body, follows_memory)) Functionalizer(lowering).run();
}

}  // namespace whence::lower
