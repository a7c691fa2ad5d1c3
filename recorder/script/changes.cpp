#include "recorder/script/changes.h"

#include "recorder/base/torch_error.h"
#include "recorder/program/structure.h"

namespace whence::recorder::script {

namespace jit = torch::jit;

Watch::Watch(Changes& changes, int depth, const PerRun<bool>& on_trial)
    : changes_(changes), depth_(depth), on_trial_(on_trial) {
  changes_.enter(*this);
}

Watch::~Watch() {
  changes_.leave();
  for (auto write = written_.rbegin(); write != written_.rend(); ++write) {
    try {
      write->tensor.as_strided_(write->sizes, write->strides, write->offset).copy_(write->before);
    } catch (const std::exception&) {
      // The tensor's memory was replaced (set_). Only the example's numbers are lost; the recording does not depend on
      // them.
    }
  }
}

void Watch::note(const Term& container, const c10::TypePtr& type) {
  if (container.depth >= depth_) return;
  if (std::ranges::any_of(changed, [&](const auto& other) { return other.items == container.items; })) return;
  changed.push_back({container.kind, container.items, type, *container.items});
}

void Watch::save(const std::vector<const Term*>& written, int run) {
  if (!on_trial_[run]) return;
  for (const Term* term : written) {
    const auto& seen = term->seen[run];
    if (!seen || !seen->isTensor() || !seen->toTensor().defined()) continue;
    const at::Tensor& tensor = seen->toTensor();
    written_.push_back({tensor, tensor.clone(), tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset()});
  }
}

void Changes::note(const Term& container, const c10::TypePtr& type) {
  if (is_ambiguous(container.items)) {
    refuse("the list or dict that is changed has another name, or may have one because of a branch or loop",
           "change a copy");
  }
  for (Watch* watch : watches_) watch->note(container, type);
}

std::string Changes::attribute_of(const std::shared_ptr<std::vector<Term>>& items) const {
  const auto found = attribute_names_.find(items);
  return found == attribute_names_.end() ? "" : found->second;
}

void Changes::save(const std::vector<const Term*>& written, int run) {
  for (Watch* watch : watches_) watch->save(written, run);
}

namespace {

// True for a block that may change a container. Follows calls, each function once.
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
    if (node.kind() == c10::prim::CallMethod) return calls(program::called_method(node));
    if (node.kind() == c10::prim::CallFunction) return calls(program::called_function(node));
    return program::changes_first_argument(node) && !type->isSubtypeOf(*c10::TensorType::get());
  }

  bool calls(jit::Function* function) {
    if (function == nullptr) return true;
    return seen_.insert(function).second && (*this)(*jit::toGraphFunction(*function).graph()->block());
  }

  std::set<const jit::Function*> seen_;
};

}  // namespace

bool may_change_containers(const jit::Block& block) { return ChangesContainers()(block); }

}  // namespace whence::recorder::script
