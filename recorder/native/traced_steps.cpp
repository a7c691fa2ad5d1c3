// Collects the steps of a trace and compares two traces.
#include "recorder/native/traced_steps.h"

#include <algorithm>
#include <unordered_map>

namespace whence::native {

namespace jit = torch::jit;

namespace {

// Returns the sizes that a tensor had when it was traced.
std::vector<std::int64_t> sizes_of(const jit::Value& value) {
  const auto type = value.type()->cast<c10::TensorType>();
  const auto sizes = type == nullptr ? std::nullopt : type->sizes().concrete_sizes();
  return sizes ? std::vector<std::int64_t>(*sizes) : std::vector<std::int64_t>();
}

// Returns true for a constant that only aten::contiguous reads, its memory format.
bool is_of_contiguous(const jit::Node& node) {
  if (node.kind() != jit::prim::Constant || !node.hasUses()) return false;
  const auto& uses = node.output()->uses();
  return std::all_of(uses.begin(), uses.end(),
                     [](const jit::Use& use) { return use.user->kind() == c10::aten::contiguous; });
}

class Collector {
 public:
  explicit Collector(const Session& session) : session_(session) {}

  void number(const jit::Value* value) { numbers_.emplace(value, next_++); }

  void collect(jit::Block& block) {
    for (jit::Node* node : block.nodes()) {
      for (jit::Block* inner : node->blocks()) collect(*inner);
      if (node->kind() == jit::prim::TracedModuleForward || is_of_contiguous(*node)) continue;
      if (node->kind() == c10::aten::contiguous) {
        numbers_.emplace(node->output(), numbers_.at(node->input(0)));
        continue;
      }
      Step step{node, node->kind().toQualString(), {}};
      for (const jit::Value* input : node->inputs()) step.inputs.push_back(numbers_.at(input));
      for (const jit::Value* output : node->outputs()) {
        number(output);
        step.outputs.push_back(numbers_.at(output));
        step.sizes.push_back(sizes_of(*output));
      }
      if (node->kind() == jit::prim::Constant) step.constant = jit::toIValue(node->output());
      if (const Note* note = session_.note(node)) {
        step.stack = note->stack;
        const MirroredModule& module = session_.mirror().at(note->scope);
        step.module = module.path;
        if (module.kind == ModuleKind::layer) step.layer = module.type;
      }
      steps.push_back(std::move(step));
    }
  }

  std::vector<Step> steps;

 private:
  const Session& session_;
  std::unordered_map<const jit::Value*, std::size_t> numbers_;
  std::size_t next_ = 0;
};

}  // namespace

std::vector<Step> steps_of(jit::Graph& graph, const Session& session) {
  Collector collector(session);
  for (const jit::Value* input : graph.inputs()) collector.number(input);
  collector.collect(*graph.block());
  return std::move(collector.steps);
}

std::optional<std::size_t> first_difference(const std::vector<Step>& a, const std::vector<Step>& b) {
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i >= a.size() || i >= b.size()) return std::min(i, std::min(a.size(), b.size()) - 1);
    if (a[i].kind != b[i].kind || a[i].inputs != b[i].inputs) return i;
  }
  return std::nullopt;
}

const Step& reader_of(const std::vector<Step>& steps, std::size_t constant) {
  // A constant directly precedes the operation that reads it; only list constructions come between.
  for (std::size_t i = constant + 1; i < steps.size(); ++i) {
    if (!steps[i].stack.empty()) return steps[i];
  }
  return steps[constant];
}

}  // namespace whence::native
