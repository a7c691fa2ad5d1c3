#include "recorder/script/operations.h"

#include <algorithm>

#include "recorder/base/torch_error.h"
#include "schema/operator_facts.h"
#include "schema/squeeze.h"

namespace whence::recorder::script {

namespace jit = torch::jit;

namespace {

bool holds_tensor(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::TensorType) return true;
  for (const auto& inner : type.containedTypes()) {
    if (holds_tensor(*inner)) return true;
  }
  return false;
}

// Returns the results of a step, with the elements of lists one by one.
std::vector<Term> results_of(const Step& step) {
  std::vector<Term> results;
  for (const jit::Value* output : step.node.outputs()) {
    const Term& term = step.call.term(output);
    if (term.kind == Term::Kind::list && !term.is_sequence()) {
      results.insert(results.end(), term.items->begin(), term.items->end());
    } else {
      results.push_back(term);
    }
  }
  return results;
}

}  // namespace

void Operations::carry_out(const Step& step) {
  const jit::Node& node = step.node;
  std::vector<Term> arguments = step.inputs();
  if (std::ranges::any_of(arguments, &Term::is_optional)) {
    refuse("an argument of an operator is a tensor or None, depending on data", "check it for None before");
  }
  if (on_host(step, arguments)) return;

  Node recorded = program::operation_of(node, arguments);
  recorded.origin = recording_.writer.origin_of(step);
  if (quantized_.carry_out(step, arguments, recorded)) return;

  const std::vector<const Term*> written = program::written_by(node, arguments);
  recording_.known.before_write(written);
  recording_.places.note_arguments(arguments);
  const Results results = execute(recording_, step, arguments);
  const bool known = recording_.known.is_known_result(node, arguments, results[0]);
  if (!known) recording_.known.after_write(written);
  give_results(recording_, step, results, known, recorded);
  note_parts(step, arguments, recorded);
  for (const jit::Value* output : node.outputs()) recording_.places.note_result(step.call.term(output), arguments);
  if (node.outputs().size() == 1 && program::changes_first_argument(node)) {
    const Term& result = step.call.term(node.output());
    if (arguments[0].is_value() && result.is_value()) recording_.aliases.note_same_tensor(result.id, arguments[0].id);
  }
  if (node.kind() == c10::prim::NumToTensor) {
    step.call.env[node.output()].number = std::make_shared<const Term>(arguments[0]);
  }
  recording_.sizes.forget_numbers(written);
  recording_.sizes.derive(arguments, recorded, results_of(step));
  note_squeeze(step, recorded);
  recording_.writer.write(std::move(recorded));
}

void Operations::note_parts(const Step& step, const std::vector<Term>& arguments, const Node& recorded) {
  if (recorded.outputs.size() != 1 || recorded.list_output || !facts_of(recorded.target).parts) return;
  const Term& list = step.call.term(step.node.output());
  if (!list.is_sequence()) return;
  if (auto cut = cut_of(recording_, recorded, arguments)) recording_.parts.note(recorded.outputs[0], std::move(*cut));
}

// Notes a squeeze over a dynamic axis: it drops the axis only at size 1, so the rank of its result depends on the size.
// Inside a program the result has the rank that it has for the example inputs; only results of the program may have
// another (results.cpp).
void Operations::note_squeeze(const Step& step, const Node& recorded) {
  if (recorded.target != "aten::squeeze" && recorded.target != "aten::squeeze_") return;
  const auto* input = recorded.arguments.front().value.as<ValueRef>();
  if (input == nullptr || !recording_.values.type(input->id).dims) return;
  const std::vector<Dim>& dims = *recording_.values.type(input->id).dims;
  std::vector<std::size_t> dynamic;
  std::size_t ones = 0;
  for (const std::size_t axis : squeezed_axes(recorded, dims.size())) {
    if (dims[axis].dynamic) dynamic.push_back(axis);
    if (!dims[axis].dynamic && dims[axis].size == 1) ++ones;
  }
  const auto& left = recording_.values.type(recorded.outputs.front()).dims;
  const bool drops = left && left->size() + ones + dynamic.size() == dims.size();
  for (const std::size_t axis : dynamic) {
    const SizeRange range = recording_.sizes.range_here(input->id, axis);
    const bool empty = (drops || dims[axis].size == 1) && range.min == 0 && range.max == 1;
    // If it is 1 in the example and larger in another run, the ranks differ, and export refuses the program.
    const bool differs = recording_.runs.depth == 0 && (dims[axis].size == 1 || (drops && dynamic.size() == 1));
    if (!empty && (differs || (drops && range.min == 1 && range.max == 1))) continue;
    const auto how = empty ? SqueezedAxis::dropped_unless_empty : drops ? SqueezedAxis::dropped : SqueezedAxis::kept;
    const std::string as = empty   ? ""
                           : drops ? "as it did where all such sizes are 1"
                                   : "as it did for the example inputs";
    // Inside control flow a condition may ensure that the assumption is true.
    const Size length = recording_.runs.depth > 0 ? Size::unknown() : length_of(recording_.program.symbols, dims[axis]);
    squeezed[recorded.outputs.front()].push_back(
        settled_squeeze(recording_.program, how, axis, length, as, recording_.writer.place(step)));
  }
}

// Returns true if is_contiguous() is true in some run and false in another.
bool Operations::in_order_at_some_sizes(const Step& step, const std::vector<Term>& arguments) {
  std::array<bool, 2> seen{};
  for (int run = 0; run < recording_.runs.count; ++run) {
    auto stack = recording_.runs.takes_part(run) ? program::host_arguments(step.node, arguments, run) : std::nullopt;
    if (!stack) continue;
    call_operator(step.node, *stack);
    seen[stack->front().toBool() ? 1 : 0] = true;
  }
  return seen[0] && seen[1];
}

// Computes an operation at once if it involves no value of the program, or reads only a tensor's type. Records nothing.
bool Operations::on_host(const Step& step, const std::vector<Term>& arguments) {
  const jit::Node& node = step.node;
  const auto is_tensor = [](const jit::Value* output) { return holds_tensor(*output->type()); };
  if (std::ranges::any_of(node.outputs(), is_tensor)) return false;
  const bool type_only = facts_of(node.kind().toQualString()).depends_on_type_only && recording_.runs.count > 0;
  const auto is_host = [](const Term& term) { return !term.has_values() && term.kind != Term::Kind::object; };
  if (!type_only) {
    if (!std::ranges::all_of(arguments, is_host)) return false;
    if (!arguments.empty() && node.isNondeterministic()) return false;
  }
  auto stack = program::host_arguments(node, arguments, 0);
  if (!stack) return false;
  try {
    call_operator(node, *stack);
  } catch (const std::exception& error) {
    if (recording_.runs.speculative()) return false;
    throw Error(Code::run_failed, torch_message(error), "pass example inputs that the model accepts",
                {.stage = "read"});
  }
  if (facts_of(node.kind().toQualString()).depends_on_strides && in_order_at_some_sizes(step, arguments)) {
    stack->front() = false;
    recording_.writer.notes.push_back(
        warning(Code::baked_size, "is_contiguous() is true at some sizes and false at others: in the file it is false",
                "call .contiguous() without the check: it copies only if it has to", recording_.writer.place(step)));
  }
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    step.call.env[node.outputs()[i]] = objects_.from_host((*stack)[i], "");
  }
  return true;
}

}  // namespace whence::recorder::script
