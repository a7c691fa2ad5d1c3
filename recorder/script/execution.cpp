#include "recorder/script/execution.h"

#include <algorithm>
#include <stdexcept>

#include "recorder/base/torch_error.h"
#include "schema/operator_facts.h"

namespace whence::recorder::script {

namespace jit = torch::jit;

namespace {

// Checks sizes that PyTorch's recurrent kernels do not compare: the batch sizes of initial states and input, and the
// features of input and weights. If they differ, as they may if one is a dynamic axis, the kernels access memory out of
// bounds.
void check_recurrent_state(const jit::Node& node, const jit::Stack& stack) {
  if (!facts_of(node.kind().toQualString()).recurrent) return;
  constexpr std::size_t argument_count = 9;  // both forms: (x, state, ..., batch_first), (x, batch sizes, state, ...)
  if (stack.size() < argument_count || !stack[0].isTensor()) return;
  const at::Tensor& input = stack[0].toTensor();
  const bool packed = stack[1].isTensor() && stack[1].toTensor().scalar_type() == at::kLong;
  const c10::IValue& states = stack[packed ? 2 : 1];
  std::vector<at::Tensor> initial;
  if (states.isTensor()) initial.push_back(states.toTensor());
  if (states.isTensorList()) initial = states.toTensorVector();
  const c10::IValue& weights = stack[packed ? 3 : 2];
  const std::int64_t features = weights.isTensorList() ? weights.toTensorList().get(0).sizes().back() : -1;
  if (features >= 0 && input.size(-1) != features) {
    throw std::invalid_argument("the weights are for " + std::to_string(features) + " features, the input has " +
                                std::to_string(input.size(-1)));
  }
  if (!packed && input.dim() != 3) return;
  const std::int64_t batch =
      packed ? stack[1].toTensor()[0].item<std::int64_t>() : input.size(stack[argument_count - 1].toBool() ? 0 : 1);
  for (const at::Tensor& state : initial) {
    if (state.dim() == 3 && state.size(1) != batch) {
      throw std::invalid_argument("the initial state has batch size " + std::to_string(state.size(1)) +
                                  ", the input has " + std::to_string(batch));
    }
    if (state.dim() == 3 && state.size(0) != initial.front().size(0)) {
      throw std::invalid_argument("the initial states have different numbers of layers");
    }
  }
}

// Refuses tensors that a Program cannot represent: sparse tensors have no bytes of their shape, nested tensors have no
// shape although their layout is strided, and there is no dtype for complex numbers in half precision.
void refuse_without_shape(const jit::Node& node, const jit::Stack& results) {
  const std::string name = node.kind().toQualString();
  for (const c10::IValue& result : results) {
    if (!result.isTensor() || !result.toTensor().defined()) continue;
    if (result.toTensor().is_nested()) {
      refuse(name + " makes a nested tensor, which ONNX operators cannot take",
             "keep the tensor padded; if PyTorch's own attention makes it, trace after "
             "torch.backends.mha.set_fastpath_enabled(False), as whence.export does");
    }
    if (result.toTensor().scalar_type() == at::kComplexHalf) {
      refuse(name + " makes a complex tensor in half precision, which has no form in ONNX", "compute with complex64");
    }
    if (result.toTensor().layout() == at::kStrided) continue;
    refuse(name + " makes a sparse tensor, which ONNX operators cannot take", "keep the tensor dense");
  }
}

// Removes the mark of a Python number from results. A traced number, as in `ids * 0.5`, is a number only as an
// argument. A result computed from it is a tensor (torch.tensor(0.5), which a trace writes as detach of a number), but
// shallow copies keep the mark.
void unmark_numbers(const jit::Stack& results, const std::vector<Term>& arguments, int run) {
  for (const c10::IValue& result : results) {
    if (!result.isTensor() || !result.toTensor().defined()) continue;
    c10::TensorImpl* tensor = result.toTensor().unsafeGetTensorImpl();
    if (!tensor->is_wrapped_number()) continue;
    const auto is_argument = [&](const Term& argument) {
      const auto given = argument.at(run);
      return given && given->isTensor() && given->toTensor().unsafeGetTensorImpl() == tensor;
    };
    if (std::ranges::none_of(arguments, is_argument)) tensor->set_wrapped_number(false);
  }
}

// Drops PyTorch's warnings: at sizes that whence chose, they do not concern the user.
struct NodelessReason : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// Returns the number of axes of a tensor or of elements of a list.
std::size_t extent(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() ? static_cast<std::size_t>(value.toTensor().dim()) : 0;
  return value.isList() ? value.toListRef().size() : 0;
}

// Returns true if a tensor is very much larger than in the example, because of a size that whence chose: eye(n * n).
bool is_much_larger(const jit::Stack& results, const std::optional<std::vector<c10::IValue>>& example) {
  constexpr std::int64_t large = 1 << 24, max_factor = 1 << 10;
  for (std::size_t i = 0; example && i < results.size(); ++i) {
    const c10::IValue &result = results[i], &usual = (*example)[i];
    if (!result.isTensor() || !result.toTensor().defined() || !usual.isTensor() || !usual.toTensor().defined())
      continue;
    const std::int64_t elements = result.toTensor().numel();
    if (elements > large && elements / max_factor > usual.toTensor().numel()) return true;
  }
  return false;
}

// Drops the check run with size 1 if only its results differ in rank or length. At size 1 a squeeze drops axes that it
// keeps otherwise, and an axis is split into fewer parts; a program has one rank for each tensor, and one length for
// each unpacked list.
void drop_single_run_if_different(Lockstep& runs, const jit::Node& node, Results& results) {
  if (runs.single == 0 || !results[0] || !results[runs.single]) return;
  if (std::ranges::any_of(node.outputs(), [](const jit::Value* output) { return becomes_sequence(*output); })) return;
  const auto as_example = [&](const auto& run) {
    return !run || std::ranges::equal(*run, *results[0], {}, extent, extent);
  };
  auto others = results;
  others[runs.single].reset();
  if (as_example(results[runs.single]) || !std::ranges::all_of(others, as_example)) return;
  runs.alive[runs.single] = false;
  results[runs.single].reset();
}

// Drops results of a different rank in runs that do not take the current side of a branch. Under `x.size(0) == 1`,
// their x.squeeze(0) keeps the axis.
void drop_ranks_off_path(const Lockstep& runs, Results& results) {
  std::optional<int> on_path;
  for (int run = 0; run < runs.count && !on_path; ++run) {
    if (results[run] && !runs.off_path[run]) on_path = run;
  }
  const auto has_rank_of = [](const c10::IValue& value, const c10::IValue& other) {
    return !value.isTensor() || !other.isTensor() || extent(value) == extent(other);
  };
  for (int run = 0; run < runs.count && on_path; ++run) {
    if (!results[run] || !runs.off_path[run]) continue;
    if (!std::ranges::equal(*results[run], *results[*on_path], has_rank_of)) results[run].reset();
  }
}

}  // namespace

// A variadic operator (aten::format) reads the number of its arguments from the top of the stack.
void call_operator(const jit::Node& node, jit::Stack& stack) {
  const jit::Operator* found = node.maybeOperator();
  if (found != nullptr && found->hasOperation() && found->schema().is_vararg()) {
    stack.emplace_back(static_cast<std::int64_t>(stack.size()));
  }
  // PyTorch does not check this, and the process would crash.
  const bool divides = node.kind() == c10::aten::remainder && stack.size() == 2 && stack[0].isInt() && stack[1].isInt();
  if (divides && stack[1].toInt() == 0) throw std::runtime_error("ZeroDivisionError: integer modulo by zero");
  node.getOperation()(stack);
}

Results execute(Recording& recording, const Step& step, const std::vector<Term>& arguments) {
  Lockstep& runs = recording.runs;
  Results results;
  std::vector<const Term*> written;
  if (recording.changes.watched()) written = program::written_by(step.node, arguments);
  for (int run = 0; run < runs.count; ++run) {
    if (!runs.takes_part(run)) continue;
    auto stack = program::host_arguments(step.node, arguments, run);
    if (!stack) continue;
    NodelessReason silence;
    std::optional<c10::WarningUtils::WarningHandlerGuard> silenced;
    if (run > 0) silenced.emplace(&silence);
    try {
      check_recurrent_state(step.node, *stack);
      recording.changes.save(written, run);
      call_operator(step.node, *stack);
    } catch (const std::exception& error) {
      if (runs.off_path[run]) continue;
      if (run > 1) {
        runs.alive[run] = false;
        continue;
      }
      if (run == 1) {
        recording.fail_at_second_size(
            "the model does not run at other sizes of the dynamic axes: " + torch_message(error),
            "compute sizes from the input's shape in the model, give equal axes one name, or leave one out of "
            "--dynamic");
      }
      throw Error(Code::run_failed, "PyTorch cannot run the model on these inputs: " + torch_message(error),
                  "pass inputs that the model accepts with --input or --inputs", {.stage = "read"});
    }
    refuse_without_shape(step.node, *stack);
    unmark_numbers(*stack, arguments, run);
    if (run > 1 && is_much_larger(*stack, results[0])) {
      runs.alive[run] = false;
      continue;
    }
    results[run] = std::vector<c10::IValue>(stack->begin(), stack->end());
  }
  drop_ranks_off_path(runs, results);
  drop_single_run_if_different(runs, step.node, results);
  return results;
}

void give_results(Recording& recording, const Step& step, const Results& results, bool known, Node& node) {
  for (std::size_t i = 0; i < step.node.outputs().size(); ++i) {
    RunValues seen =
        recording.runs.each([&](int run) { return results[run] ? std::optional((*results[run])[i]) : std::nullopt; });
    const jit::Value* output = step.node.outputs()[i];
    step.call.env[output] = recording.result(*output, std::move(seen), known, node);
  }
}

}  // namespace whence::recorder::script
