#include "recorder/script/watch.h"

#include <algorithm>

namespace whence::recorder {

namespace jit = torch::jit;

Evaluator::Watch::Watch(Evaluator& evaluator, int depth, const PerRun<bool>& on_trial)
    : evaluator_(evaluator), depth_(depth), on_trial_(on_trial) {
  evaluator_.watches_.push_back(this);
}

Evaluator::Watch::~Watch() {
  evaluator_.watches_.pop_back();
  for (auto write = written_.rbegin(); write != written_.rend(); ++write) {
    try {
      write->tensor.as_strided_(write->sizes, write->strides, write->offset).copy_(write->before);
    } catch (const std::exception&) {
      // Its memory was exchanged (set_). Only the example's numbers are lost; what is recorded does not depend on them.
    }
  }
}

void Evaluator::Watch::note(const Term& container, const c10::TypePtr& type) {
  if (container.depth >= depth_) return;
  if (std::ranges::any_of(changed, [&](const auto& other) { return other.items == container.items; })) return;
  changed.push_back({container.kind, container.items, type, *container.items});
}

void Evaluator::Watch::save(const std::vector<const Term*>& written, int run) {
  if (!on_trial_[run]) return;
  for (const Term* term : written) {
    const auto& seen = term->seen[run];
    if (!seen || !seen->isTensor() || !seen->toTensor().defined()) continue;
    const at::Tensor& tensor = seen->toTensor();
    written_.push_back({tensor, tensor.clone(), tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset()});
  }
}

// A list, dict or attribute is about to be changed.
void Evaluator::note_change(const jit::Node& node, const Call& call, const Term& container, const c10::TypePtr& type) {
  if (in_doubt_.contains(container.items)) {
    refuse(node, call, "a list or dict is changed that has another name, or may have one because of a branch or loop",
           "change a copy");
  }
  for (Watch* watch : watches_) watch->note(container, type);
}

namespace {

class ChangesContainers {
 public:
  bool operator()(const jit::Block& block) {
    for (const jit::Node* node : block.nodes()) {
      if (changes(*node)) return true;
      for (const jit::Block* nested : node->blocks()) {
        if ((*this)(*nested)) return true;
      }
    }
    return false;
  }

 private:
  bool changes(const jit::Node& node) {
    if (node.kind() == c10::prim::SetAttr) return true;
    const c10::TypePtr type = node.inputs().empty() ? nullptr : node.input(0)->type();
    if (node.kind() == c10::prim::CallMethod) {
      const auto object = type->cast<c10::ClassType>();
      return !object || calls(object->findMethod(node.s(c10::attr::name)));
    }
    if (node.kind() == c10::prim::CallFunction) {
      const auto function = type->cast<c10::FunctionType>();
      return !function || calls(function->function());
    }
    return changes_first_argument(node) && !type->isSubtypeOf(*c10::TensorType::get());
  }

  bool calls(jit::Function* function) {
    if (function == nullptr || !function->isGraphFunction()) return true;
    return seen_.insert(function).second && (*this)(*jit::toGraphFunction(*function).graph()->block());
  }

  std::set<const jit::Function*> seen_;
};

}  // namespace

bool Evaluator::may_change_containers(const jit::Block& block) { return ChangesContainers()(block); }

// True if this is evaluated for its shapes only: no run comes here.
bool Evaluator::speculative() const {
  if (runs_ == 0) return pretends_[0];
  bool any = false;
  for (int run = 0; run < runs_; ++run) any |= active_[run] && alive_[run] && !pretends_[run];
  return !any;
}

}  // namespace whence::recorder
