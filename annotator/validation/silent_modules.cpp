#include "annotator/validation/silent_modules.h"

#include <algorithm>
#include <array>
#include <set>

#include "annotator/origin/keys/origin.h"
#include "annotator/origin/module_tree.h"
#include "annotator/origin/stamp.h"
#include "annotator/validation/operation_fates.h"

namespace whence::validation {

namespace keys = origin::keys;

namespace {

// What the recording and the file contain of a module and the modules below it.
struct Activity : origin::ModulePlace {
  bool called = false;
  bool has_node = false;
  bool folded = false;
  bool constant = false;  // one of its operations was folded into a constant
  std::map<std::string, std::int64_t> operations;
};

// Collects the activity along module paths; which module called another does not matter.
class ActivityTree {
 public:
  explicit ActivityTree(const CheckContext& context) : context_(context), program_(*context.program) {
    for (const Module& module : program_.modules) tree_.add(module.path);
    for (const Module& module : program_.modules) {
      for (const std::string& alias : module.aliases) tree_.add_alias(alias, tree_.add(module.path));
    }
    for (const ScopeId id : program_.scopes.keys()) {
      upwards(id, [](Activity& at) { at.called = true; });
    }
    const std::set<std::int32_t> folded = folded_operations(context);
    for (const Node* node : operations(program_)) {
      upwards(node->origin.scope, [&](Activity& at) {
        ++at.operations[node->target];
        at.constant = at.constant || folded.count(node->origin.op) > 0;
      });
    }
    for (const onnx_file::OnnxNode* node : context.nodes) count(*node);
  }

  const Activity& operator[](const Module& module) const { return tree_.rows[*tree_.find(module.path)]; }

 private:
  template <class Visit>
  void upwards(ScopeId scope, const Visit& visit) {
    tree_.upwards(*tree_.find(program_.module_path(scope)), visit);
  }

  void count(const onnx_file::OnnxNode& node) {
    for (const std::string& path : metadata::attribution_of(node, context_.recorded).modules) {
      if (const auto row = tree_.find(path)) tree_.upwards(*row, [](Activity& at) { at.has_node = true; });
    }
    if (context_.recorded == nullptr) return;
    const auto stamp = origin::parse_stamp(onnx_file::find_property(node.metadata, keys::op).value_or(""));
    if (!stamp) return;
    for (const std::int32_t op : stamp->ops) {
      const Node* operation = context_.recorded->operation(op);
      if (operation != nullptr) upwards(operation->origin.scope, [](Activity& at) { at.folded = true; });
    }
  }

  const CheckContext& context_;
  const Program& program_;
  origin::ModuleTree<Activity> tree_;
};

bool computes_nothing(const Module& module) {
  static const std::set<std::string_view> containers = {
      "torch.nn.modules.linear.Identity",         "torch.nn.modules.container.ModuleList",
      "torch.nn.modules.container.ModuleDict",    "torch.nn.modules.container.Sequential",
      "torch.nn.modules.container.ParameterList", "torch.nn.modules.container.ParameterDict"};
  return module.leaf() && containers.count(module.type) > 0;
}

Silence reason_for(const Module& module, const Activity& activity, bool has_stamps) {
  if (activity.folded) return Silence::folded;
  if (!activity.operations.empty() && !has_stamps && !activity.constant) return Silence::unknown;
  if (!activity.operations.empty()) return activity.constant ? Silence::constant : Silence::eliminated;
  return activity.called || computes_nothing(module) ? Silence::computes_nothing : Silence::never_called;
}

}  // namespace

std::string_view name_of(Silence silence) {
  constexpr std::array<std::string_view, 6> names = {"never_called", "computes_nothing", "constant",
                                                     "eliminated",   "unknown",          "folded"};
  return names[static_cast<std::size_t>(silence)];
}

std::string_view text_of(Silence silence) {
  constexpr std::array<std::string_view, 6> texts = {
      "never called",           "computes nothing",
      "folded into constants",  "all operations eliminated",
      "not stated in the file", "folded into nodes that serve several modules"};
  return texts[static_cast<std::size_t>(silence)];
}

std::vector<SilentModule> silent_modules(const CheckContext& context) {
  std::vector<SilentModule> silent;
  if (context.program == nullptr) return silent;
  const ActivityTree activities(context);
  for (const Module& module : context.program->modules) {
    const Activity& activity = activities[module];
    if (activity.has_node) continue;
    silent.push_back(
        {module.path, module.type, reason_for(module, activity, context.recorded != nullptr), activity.operations});
  }
  return silent;
}

}  // namespace whence::validation
