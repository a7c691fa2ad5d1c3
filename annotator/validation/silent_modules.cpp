#include "annotator/validation/silent_modules.h"

#include <algorithm>
#include <array>
#include <set>

#include "annotator/origin/keys.h"
#include "annotator/origin/stamp.h"
#include "annotator/validation/operation_fates.h"

namespace whence::validation {

namespace keys = origin::keys;

namespace {

// Per module of the program's table, subtrees included.
struct Activity {
  bool called = false;
  bool has_node = false;
  bool folded = false;
  bool constant = false;  // an operation of it went into a constant
  std::map<std::string, std::int64_t> operations;
};

class Survey {
 public:
  explicit Survey(const CheckContext& context)
      : context_(context), program_(*context.program), activity_(program_.modules.size()) {
    for (const Scope& scope : program_.scopes) {
      visit(scope.module, [](Activity& at) { at.called = true; });
    }
    const std::set<std::int32_t> folded = folded_operations(context);
    for (const Node* node : operations(program_)) {
      visit(program_.scopes[node->origin.scope].module, [&](Activity& at) {
        ++at.operations[node->target];
        at.constant = at.constant || folded.count(node->origin.op) > 0;
      });
    }
    for (const onnx_file::OnnxNode* node : context.nodes) count(*node);
  }

  const Activity& operator[](std::size_t module) const { return activity_[module]; }

 private:
  // A module and all above it. Scopes may call a module from elsewhere, but its names lie in one place of the tree.
  template <class Visit>
  void visit(ModuleId module, const Visit& action) {
    for (; module != none_id; module = program_.modules[module].parent) action(activity_[module]);
  }

  void count(const onnx_file::OnnxNode& node) {
    for (const std::string& path : metadata::attribution_of(node, context_.recorded).modules) {
      if (const auto found = ids().find(path); found != ids().end()) {
        visit(found->second, [](Activity& at) { at.has_node = true; });
      }
    }
    if (context_.recorded == nullptr) return;
    const auto stamp = origin::parse_stamp(onnx_file::find_property(node.metadata, keys::op).value_or(""));
    if (!stamp) return;
    for (const std::int32_t op : stamp->ops) {
      const Node* operation = context_.recorded->operation(op);
      if (operation == nullptr) continue;
      visit(program_.scopes[operation->origin.scope].module, [](Activity& at) { at.folded = true; });
    }
  }

  const std::map<std::string_view, ModuleId>& ids() {
    if (ids_.empty()) {
      for (std::size_t i = 0; i < program_.modules.size(); ++i) {
        ids_.emplace(program_.modules[i].path, static_cast<ModuleId>(i));
        for (const std::string& alias : program_.modules[i].aliases) ids_.emplace(alias, static_cast<ModuleId>(i));
      }
    }
    return ids_;
  }

  const CheckContext& context_;
  const Program& program_;
  std::vector<Activity> activity_;
  std::map<std::string_view, ModuleId> ids_;
};

bool computes_nothing(const Module& module) {
  static const std::set<std::string_view> containers = {
      "torch.nn.modules.linear.Identity",         "torch.nn.modules.container.ModuleList",
      "torch.nn.modules.container.ModuleDict",    "torch.nn.modules.container.Sequential",
      "torch.nn.modules.container.ParameterList", "torch.nn.modules.container.ParameterDict"};
  return module.leaf() && containers.count(module.type) > 0;
}

Silence reason_for(const Module& module, const Activity& activity, bool belongs) {
  if (activity.folded) return Silence::folded;
  if (!activity.operations.empty() && !belongs && !activity.constant) return Silence::unknown;
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
      "never called",          "computes nothing",
      "folded into constants", "all operations eliminated",
      "the file does not say", "folded into nodes that serve several modules"};
  return texts[static_cast<std::size_t>(silence)];
}

std::vector<SilentModule> silent_modules(const CheckContext& context) {
  std::vector<SilentModule> silent;
  if (context.program == nullptr) return silent;
  const Survey survey(context);
  for (std::size_t i = 0; i < context.program->modules.size(); ++i) {
    if (survey[i].has_node) continue;
    const Module& module = context.program->modules[i];
    silent.push_back(
        {module.path, module.type, reason_for(module, survey[i], context.recorded != nullptr), survey[i].operations});
  }
  return silent;
}

}  // namespace whence::validation
