#include "recorder/native/traced_steps.h"

#include <unordered_map>

namespace whence::native {

namespace jit = torch::jit;

namespace {

class Collector {
 public:
  explicit Collector(const Session& session) : session_(session) {}

  void number(const jit::Value* value) { numbers_.emplace(value, numbers_.size()); }

  void collect(jit::Block& block) {
    for (jit::Node* node : block.nodes()) {
      for (jit::Block* inner : node->blocks()) collect(*inner);
      if (node->kind() == jit::prim::TracedModuleForward) continue;
      Step step{node, node->kind().toQualString(), {}};
      for (const jit::Value* input : node->inputs()) step.inputs.push_back(numbers_.at(input));
      for (const jit::Value* output : node->outputs()) number(output);
      if (node->kind() == jit::prim::Constant) step.constant = jit::toIValue(node->output());
      if (const Note* note = session_.note(node)) {
        step.stack = note->stack;
        step.module = session_.mirror().at(note->scope).path;
      }
      steps.push_back(std::move(step));
    }
  }

  std::vector<Step> steps;

 private:
  const Session& session_;
  std::unordered_map<const jit::Value*, std::size_t> numbers_;
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
  // Constants stand right before the operation that reads them, list constructions between.
  for (std::size_t i = constant + 1; i < steps.size(); ++i) {
    if (!steps[i].stack.empty()) return steps[i];
  }
  return steps[constant];
}

}  // namespace whence::native
