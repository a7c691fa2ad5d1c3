#include "recorder/script/sequence_loop.h"

namespace whence::recorder::script {

namespace {

Node node_of(const Origin& origin, const char* target, const char* overload, std::vector<NamedArgument> arguments) {
  Node node;
  node.target = target;
  node.overload = overload;
  node.arguments = std::move(arguments);
  node.origin = origin;
  return node;
}

// Returns the elements of both lists, in each run that has them.
RunValues joined(const Lockstep& runs, const Term& start, const Term& other, bool in_front) {
  return runs.each([&](int run) -> std::optional<c10::IValue> {
    if (!start.seen[run] || !other.seen[run]) return std::nullopt;
    c10::impl::GenericList elements = start.seen[run]->toList().copy();
    for (const c10::IValue& each : other.seen[run]->toListRef()) {
      elements.insert(in_front ? elements.begin() : elements.end(), each);
    }
    return c10::IValue(std::move(elements));
  });
}

}  // namespace

Term with_elements(Recording& recording, const Term& start, const Term& other, const c10::TypePtr& element,
                   bool in_front, const Origin& origin) {
  Values& values = recording.values;
  DType dtype = values.type(other.id).dtype;
  if (dtype == DType::undefined) dtype = values.type(start.id).dtype;
  const Type integer{ValueKind::integer, DType::int64, std::nullopt}, list{ValueKind::sequence, dtype, std::nullopt};
  Type element_type = values.type_of({}, element);
  element_type.dtype = dtype;
  const auto add = [&](Node& node, const char* name, const Type& type) {
    node.outputs.push_back(values.add(name, ValueSource::node, type));
    return Argument{ValueRef{node.outputs.back()}};
  };
  const Argument source{ValueRef{other.id}};
  Node length = node_of(origin, "aten::len", "t", {{"self", source}});
  const Argument trips = add(length, "length", integer);
  recording.writer.write(std::move(length));

  Node loop =
      node_of(origin, "prim::Loop", "",
              {{"max_trip_count", trips}, {"condition", {true}}, {"initial", {ArgumentList{{ValueRef{start.id}}}}}});
  add(loop, "list", list);
  Block& block = loop.blocks.emplace_back();
  block.inputs.push_back(values.add("iteration", ValueSource::block_input, integer));
  block.inputs.push_back(values.add("list", ValueSource::block_input, list));
  Node read = node_of(origin, "aten::__getitem__", "t", {{"self", source}, {"idx", {ValueRef{block.inputs[0]}}}});
  const Argument item = add(read, "element", element_type);
  Node put = node_of(origin, in_front ? "aten::insert" : "aten::append", "t", {{"self", {ValueRef{block.inputs[1]}}}});
  if (in_front) put.arguments.push_back({"idx", {std::int64_t{0}}});
  put.arguments.push_back({"el", item});
  block.outputs = {{true}, add(put, "list", list)};
  block.nodes = {std::move(read), std::move(put)};
  const ValueId result = loop.outputs.front();
  recording.writer.write(std::move(loop));
  return Term::of_value(result, joined(recording.runs, start, other, in_front));
}

}  // namespace whence::recorder::script
