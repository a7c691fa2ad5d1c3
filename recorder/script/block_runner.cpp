#include "recorder/script/block_runner.h"

#include "recorder/script/restore.h"

namespace whence::recorder::script {

namespace jit = torch::jit;

const BlockRunner::LastUses& BlockRunner::last_uses(const jit::Block& block) {
  const auto known = last_uses_.find(&block);
  if (known != last_uses_.end()) return known->second;
  std::unordered_map<const jit::Value*, const jit::Node*> last;
  const std::function<void(const jit::Node*, const jit::Node*)> note = [&](const jit::Node* node,
                                                                           const jit::Node* owner) {
    for (const jit::Value* value : node->inputs()) last[value] = owner;
    for (const jit::Block* inner : node->blocks()) {
      for (const jit::Node* nested : inner->nodes()) note(nested, owner);
      for (const jit::Value* value : inner->outputs()) last[value] = owner;
    }
  };
  for (const jit::Node* node : block.nodes()) note(node, node);
  for (const jit::Value* value : block.outputs()) last.erase(value);
  LastUses uses;
  for (const auto& [value, node] : last) {
    if (value->node()->owningBlock() == &block) uses[node].push_back(value);
  }
  return last_uses_.emplace(&block, std::move(uses)).first->second;
}

void BlockRunner::release(const jit::Block& block, Call& call) {
  for (const jit::Value* input : block.inputs()) call.env.erase(input);
  for (const jit::Value* output : block.outputs()) {
    if (output->node()->owningBlock() == &block) call.env.erase(output);
  }
}

void BlockRunner::run(const jit::Block& block, Call& call) {
  const LastUses& uses = last_uses(block);
  Restore at(call.at);
  for (const jit::Node* node : block.nodes()) {
    call.at = node;
    carry_out_({*node, call});
    const auto done = uses.find(node);
    if (done == uses.end()) continue;
    for (const jit::Value* value : done->second) call.env.erase(value);
  }
}

}  // namespace whence::recorder::script
