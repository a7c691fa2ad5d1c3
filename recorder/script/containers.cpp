#include "recorder/script/containers.h"

#include "recorder/base/torch_error.h"
#include "recorder/program/structure.h"
#include "recorder/script/container_methods.h"
#include "recorder/script/sequences.h"

namespace whence::recorder::script {

namespace jit = torch::jit;

namespace {

using CarryOut = bool (*)(Recording&, const Step&);

bool set_output(const Step& step, Term result) {
  step.set_output(std::move(result));
  return true;
}

bool unpack(Recording& recording, const Step& step) {
  const Term container = step.in(0);
  if (container.is_sequence()) return carry_out_on_sequence(recording, step);
  if (!container.is_container()) return false;
  const auto items = program::unpacked_items(step.node, container);
  if (!items) {
    refuse("a list of " + std::to_string(container.items->size()) + " is unpacked into " +
               std::to_string(step.node.outputs().size()),
           "run with inputs of the sizes the model was traced with");
  }
  for (std::size_t i = 0; i < items->size(); ++i) step.call.env[step.node.outputs()[i]] = (*items)[i];
  return true;
}

bool cut_tuple(Recording& recording, const Step& step) {
  const auto& items = *step.in(0).items;
  const auto begin = static_cast<std::ptrdiff_t>(step.node.i(c10::attr::beg));
  const auto end = static_cast<std::ptrdiff_t>(step.node.i(c10::attr::end));
  return set_output(
      step, Term::container(Term::Kind::tuple, {items.begin() + begin, items.begin() + end}, recording.runs.depth));
}

bool is_instance(Recording&, const Step& step) {
  const auto value = host(step.in(0), step.type(0), 0);
  if (!value) return false;
  const auto is_subtype = [&](const c10::TypePtr& type) { return value->type()->isSubtypeOf(*type); };
  return set_output(step, Term::literal(std::ranges::any_of(step.node.tys(c10::attr::types), is_subtype)));
}

// Skips the expand of `value` in x[a:b] = value: a trace expands it to the example's sizes, but the write broadcasts it
// anyway.
bool expand_for_write(Recording& recording, const Step& step) {
  const auto& uses = step.node.output()->uses();
  const bool written = uses.size() == 1 && uses[0].user->kind() == c10::aten::copy_ && uses[0].offset == 1;
  return recording.runs.count > 1 && written && set_output(step, step.in(0));
}

bool unwrap(Recording&, const Step& step) {
  return set_output(step, step.in(0).is_optional() ? step.in(0).content() : step.in(0));
}

// Undoes a conversion of a number to a tensor and back. Tracing adds such pairs around every use of a size. PyTorch
// removes them wherever it inlines a method and keeps them in the outermost one; whence does the same, so that its
// operations equal those of the trace's inlined graph, one by one.
bool restore_number(Recording&, const Step& step) {
  return step.in(0).number && !step.call.outermost && set_output(step, *step.in(0).number);
}

bool skip(Recording&, const Step& step) {
  for (const jit::Value* output : step.node.outputs()) step.call.env[output] = Term();
  return true;
}

bool raise(Recording& recording, const Step& step) {
  const Lockstep& runs = recording.runs;
  if (runs.speculative() || (runs.count == 0 && runs.depth > 0)) return true;
  const auto message = step.in(0).settled();
  const bool text = message && message->isString();
  refuse("the program raises: " + (text ? message->toStringRef() : std::string("an exception")),
         "pass inputs that the model accepts");
}

// Evaluates `x is None` if data decides it.
Term is_none(Recording& recording, const Step& step, const Term& optional) {
  if (const auto flag = optional.flag().settled()) return Term::literal(!flag->toBool());
  Node node;
  node.target = "aten::__not__";
  node.origin = recording.writer.origin_of(step);
  node.arguments.push_back({"self", program::argument(optional.flag(), nullptr)});
  RunValues seen = recording.runs.each([&](int run) -> std::optional<c10::IValue> {
    const auto& flag = optional.flag().seen[run];
    return flag ? std::optional<c10::IValue>(!flag->toBool()) : std::nullopt;
  });
  Term answer = recording.result(*step.node.output(), std::move(seen), false, node);
  recording.writer.write(std::move(node));
  return answer;
}

// Returns true if two tensors are the same: an in-place operation returns its argument as a new value, and a result of
// a branch or loop may be an older tensor.
bool same_tensor(const Recording& recording, const Term& a, const Term& b) {
  const bool same = recording.aliases.first_name(a) == recording.aliases.first_name(b);
  bool with_user_paths = !recording.aliases.may_be_same(a, b);
  for (int run = 0; run < recording.runs.count; ++run) {
    const auto one = a.at(run), other = b.at(run);
    if (one && other) with_user_paths &= one->is(*other) == same;
  }
  if (same || with_user_paths) return same;
  refuse("whether two tensors are the same object ('is') depends on sizes or data",
         "compare what they were computed from, or their values");
}

bool compare_objects(Recording& recording, const Step& step) {
  const Term a = step.in(0), b = step.in(1);
  const bool negated = step.node.kind() == c10::aten::__isnot__;
  if (a.is_optional() && b.kind == Term::Kind::none) {
    return set_output(step, negated ? a.flag() : is_none(recording, step, a));
  }
  auto same = program::same_object(a, b);
  if (same == false && a.is_value() && b.is_value()) same = same_tensor(recording, a, b);
  return same && set_output(step, Term::literal(*same != negated));
}

// Evaluates dict() or OrderedDict(). With pairs or another dict as argument, it is a method of that argument.
bool make_dict(Recording& recording, const Step& step) {
  if (step.count() > 0) return carry_out_method(recording, step);
  return set_output(step, Term::container(Term::Kind::dict, {}, recording.runs.depth));
}

// Returns the host operators by their symbol.
const std::unordered_map<c10::Symbol, CarryOut>& host_operators() {
  using c10::Symbol;
  static const std::unordered_map<Symbol, CarryOut> table = {
      {c10::prim::ListUnpack, unpack},
      {c10::prim::TupleUnpack, unpack},
      {c10::prim::TupleIndex,
       [](Recording&, const Step& step) {
         return set_output(step, (*step.in(0).items)[position_in(step.in(0), step.in(1))]);
       }},
      {c10::prim::TupleSlice, cut_tuple},
      {c10::prim::isinstance, is_instance},
      {c10::prim::Uninitialized, [](Recording&, const Step& step) { return set_output(step, Term::unset()); }},
      {c10::aten::expand, expand_for_write},
      {c10::aten::dict, make_dict},
      {c10::prim::unchecked_cast, unwrap},
      {c10::prim::unchecked_unwrap_optional, unwrap},
      {c10::aten::_unwrap_optional, unwrap},
      {c10::aten::Int, restore_number},
      {c10::aten::ScalarImplicit, restore_number},
      {c10::prim::Print, skip},
      {c10::prim::Enter, skip},
      {c10::prim::Exit, skip},
      {c10::prim::RaiseException, raise},
      {c10::aten::warn, [](Recording&, const Step&) { return true; }},
      {c10::aten::__is__, compare_objects},
      {c10::aten::__isnot__, compare_objects},
      // PyTorch's own layers query this to choose between fused kernels and single operators; whence needs the
      // operators.
      {Symbol::fromQualString("aten::is_grad_enabled"),
       [](Recording&, const Step& step) { return set_output(step, Term::literal(true)); }},
      // x.data equals x except for gradients
      {Symbol::fromQualString("prim::data"), [](Recording&, const Step& step) { return set_output(step, step.in(0)); }},
  };
  return table;
}

}  // namespace

bool carry_out_on_host_object(Recording& recording, const Step& step) {
  if (const auto kind = program::built_container(step.node)) {
    return set_output(step, Term::container(*kind, step.inputs(), recording.runs.depth));
  }
  const auto row = host_operators().find(step.node.kind());
  if (row != host_operators().end()) return row->second(recording, step);
  if (step.count() == 0) return false;
  return carry_out_on_sequence(recording, step) || carry_out_method(recording, step);
}

}  // namespace whence::recorder::script
