// Which lists and dicts a branch or loop that depends on data may change although they were made outside of it: what it
// leaves in them has to be handed on.
#include <algorithm>

#include "recorder/evaluator.h"

namespace whence {

namespace jit = torch::jit;

namespace {

// Whether something in the block writes into a list or dict, or calls what may.
bool may_change_containers(const jit::Block& block) {
  for (const jit::Node* node : block.nodes()) {
    const bool call = node->kind() == c10::prim::CallMethod || node->kind() == c10::prim::CallFunction;
    if (call || (changes_first_argument(*node) && !node->input(0)->type()->isSubtypeOf(*c10::TensorType::get()))) {
      return true;
    }
    for (const jit::Block* nested : node->blocks()) {
      if (may_change_containers(*nested)) return true;
    }
  }
  return false;
}

}  // namespace

// Lists and dicts made outside of the node's blocks that are within their reach, each once.
std::vector<Evaluator::ChangedContainer> Evaluator::changeable_containers(const jit::Node& node,
                                                                          const Call& call) const {
  std::vector<ChangedContainer> found;
  const std::function<void(const Term&, const c10::TypePtr&)> add = [&](const Term& term, const c10::TypePtr& type) {
    if (!term.items || !may_change(term)) return;
    if (std::ranges::any_of(found, [&](const auto& other) { return other.items == term.items; })) return;
    if (term.kind != Term::Kind::tuple) found.push_back({term.kind, term.items, type, *term.items});
    for (std::size_t i = 0; i < term.items->size(); ++i) add((*term.items)[i], item_type(type, i));
  };
  const std::function<void(const jit::Block&)> visit = [&](const jit::Block& block) {
    const auto use = [&](const jit::Value* value) {
      const auto known = call.env.find(value);
      if (known != call.env.end()) add(known->second, value->type());
    };
    for (const jit::Node* inner : block.nodes()) {
      for (const jit::Block* nested : inner->blocks()) visit(*nested);
      for (const jit::Value* value : inner->inputs()) use(value);
    }
    for (const jit::Value* value : block.outputs()) use(value);
  };
  for (const jit::Block* block : node.blocks()) {
    if (may_change_containers(*block)) visit(*block);
  }
  return found;
}

void Evaluator::check_change(const jit::Node& node, const Call& call, const Term& container) {
  if (!may_change(container)) {
    refuse(node, call,
           "a list or dict is changed inside a branch or loop that depends on data, out of the reach of what follows",
           "make it in the method that changes it, or pass it to it");
  }
  if (in_doubt_.contains(container.items)) {
    refuse(node, call, "a list or dict is changed that has another name, or may have one because of a branch or loop",
           "change a copy");
  }
}

// A block that depends on data may change a list only if what it leaves is handed on to what follows the block.
bool Evaluator::may_change(const Term& container) const {
  const auto followed = followed_.find(container.items.get());
  return depth_ <= (followed == followed_.end() ? container.depth : std::max(container.depth, followed->second));
}

}  // namespace whence
