#include "recorder/script/recording.h"

#include <algorithm>

#include "schema/lost_writes.h"
#include "schema/operator_facts.h"
#include "schema/program_walk.h"

namespace whence::recorder::script {

namespace jit = torch::jit;

namespace {

// Returns the length of a list in the first run that has it; empty if no run has it, or it is not a list.
std::optional<std::size_t> length_in_first(const RunValues& seen) {
  const auto first = std::ranges::find_if(seen, [](const auto& value) { return value.has_value(); });
  if (first == seen.end() || !(*first)->isList()) return std::nullopt;
  return (*first)->toListRef().size();
}

}  // namespace

bool becomes_sequence(const jit::Value& output) {
  const auto unpacks = [](const jit::Use& use) { return use.user->kind() == c10::prim::ListUnpack; };
  return facts_of(output.node()->kind().toQualString()).parts && std::ranges::none_of(output.uses(), unpacks);
}

// Returns true if the size of this axis of the tensor that aten::size reads is the same in every run.
bool Recording::static_size(const Node& node, std::size_t axis) const {
  const auto* self = node.arguments.empty() ? nullptr : node.arguments[0].value.as<ValueRef>();
  if (self == nullptr) return false;
  const auto& dims = values.type(self->id).dims;
  return dims && axis < dims->size() && (*dims)[axis].is_static();
}

// Returns the number of elements of a list; empty for other types, and for a list that was not run and is not unpacked.
std::optional<std::size_t> Recording::elements_in(const jit::Value& output, const RunValues& seen) const {
  if (output.type()->kind() != c10::TypeKind::ListType) return std::nullopt;
  if (const auto length = length_in_first(seen)) return length;
  std::optional<std::size_t> count;
  for (const auto& use : output.uses()) {
    if (use.user->kind() == c10::prim::ListUnpack) count = use.user->outputs().size();
  }
  return count;
}

Term Recording::element(const std::string& name, const c10::TypePtr& type, RunValues seen, bool known_result,
                        Node& node) {
  Type seen_type = values.type_of(seen, type);
  Term term = Term::of_value(values.add(name, ValueSource::node, std::move(seen_type)), std::move(seen));
  term.known = known_result;
  known.add(term);
  node.outputs.push_back(term.id);
  return term;
}

Term Recording::result(const jit::Value& output, RunValues seen, bool known_result, Node& node) {
  const std::string name = program::base_name_of_value(output.debugName());
  const auto first = std::ranges::find_if(seen, [](const auto& value) { return value.has_value(); });
  if (first != seen.end() && (*first)->isNone()) return {};
  const auto count = elements_in(output, seen);
  if (!count) return element(name, output.type(), std::move(seen), known_result, node);

  const auto differs = [&](const auto& value) { return value && value->toListRef().size() != *count; };
  const bool by_data = becomes_sequence(output) && sizes.has_dynamic_part_count(node);
  if (by_data) sizes.note_list_parts(node, seen);
  if (by_data || (length_in_first(seen) && std::ranges::any_of(seen, differs))) {
    if (!becomes_sequence(output)) {
      throw Error(Code::baked_size, "the number of results of " + qualified(node) + " depends on a dynamic size",
                  "leave that axis out of --dynamic", {.stage = "read", .op = qualified(node)});
    }
    const Type type{ValueKind::sequence, program::element_dtype(seen), std::nullopt};
    const ValueId id = values.add("list", ValueSource::node, type);
    node.outputs.push_back(id);
    return Term::of_sequence(Term::of_value(id, std::move(seen)), runs.depth);
  }
  node.list_output = true;
  std::vector<Term> items;
  for (std::size_t i = 0; i < *count; ++i) {
    RunValues part;
    for (int run = 0; run < runs.count; ++run) {
      if (seen[run]) part[run] = seen[run]->toListRef().at(i);
    }
    const bool known_part = known_result || (node.target == "aten::size" && part[0] && static_size(node, i));
    items.push_back(element(name, output.type()->containedTypes().at(0), std::move(part), known_part, node));
  }
  return Term::container(Term::Kind::list, std::move(items), runs.depth);
}

void Recording::fail_at_second_size(const std::string& message, const std::string& remedy) {
  values_before_failure = values.size();
  throw Error(Code::baked_size, message, remedy);
}

void Recording::note_change(const Term& container, const Step& step) {
  changes.note(container, step.type(0));
  const std::string attribute = changes.attribute_of(container.items);
  if (!attribute.empty()) writer.notes.push_back(lost_write(WrittenTo::element, attribute, writer.place(step)));
}

ValueId Recording::write(Node node, const std::string& name, Type type) {
  const ValueId id = values.add(name, ValueSource::node, std::move(type));
  node.outputs.push_back(id);
  writer.write(std::move(node));
  return id;
}

}  // namespace whence::recorder::script
