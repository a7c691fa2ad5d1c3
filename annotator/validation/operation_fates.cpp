#include "annotator/validation/operation_fates.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "annotator/origin/keys/origin.h"
#include "annotator/origin/keys/program.h"
#include "annotator/origin/stamp.h"
#include "schema/operator_facts.h"
#include "schema/program_walk.h"

namespace whence::validation {

namespace keys = origin::keys;

namespace {

// Finds the values that depend on an input of the model. Results of branches and loops always count as dependent.
class InputDependence {
 public:
  explicit InputDependence(const Program& program) : depends_(program.values.size()) {
    for (const ProgramInput& input : program.inputs) mark(input.value);
    walk(program.body);
  }

  bool operator()(const Node& node) const {
    bool depends = !node.blocks.empty();
    each_operand(node, [&](ValueId value) { depends = depends || has(value); });
    return depends;
  }

 private:
  bool has(ValueId value) const { return value.exists() && depends_[value]; }
  void mark(ValueId value) {
    if (value.exists()) depends_[value] = true;
  }
  void walk(const Block& block) {
    for (const ValueId input : block.inputs) mark(input);
    for (const Node& node : block.nodes) {
      for (const Block& inner : node.blocks) walk(inner);
      if (!(*this)(node)) continue;
      for (const ValueId output : node.outputs) mark(output);
    }
  }

  IndexedVector<ValueId, bool> depends_;
};

// Finds the operations that an output of the model needs.
class NeededOperations {
 public:
  explicit NeededOperations(const Program& program) : used_(program.values.size()) {
    for (const ProgramOutput& output : program.outputs) use(output.value);
    walk(program.body);
  }

  bool operator()(const Node& node) const {
    const auto used = [&](ValueId value) { return value.exists() && used_[value]; };
    return !node.blocks.empty() || std::ranges::any_of(node.outputs, used);
  }

 private:
  void use(const Argument& argument) {
    each_value(argument, [&](ValueId value) {
      if (value.exists()) used_[value] = true;
    });
  }
  void walk(const Block& block) {
    for (auto node = block.nodes.rbegin(); node != block.nodes.rend(); ++node) {
      if (!(*this)(*node)) continue;
      for (const NamedArgument& argument : node->arguments) use(argument.value);
      for (const Block& inner : node->blocks) {
        for (const Argument& output : inner.outputs) use(output);
        walk(inner);
      }
    }
  }

  IndexedVector<ValueId, bool> used_;
};

bool is_identity(const Node& node) {
  std::string_view target = node.target;
  if (target.ends_with('_')) target.remove_suffix(1);  // in-place form
  const Identity identity = facts_of(target).identity;
  return identity != Identity::never && identity != Identity::same_shape;
}

// The nodes that do not state their operations. Such a node may represent an operation that has no node otherwise.
class UnstampedNodes {
 public:
  explicit UnstampedNodes(const CheckContext& context) : program_(*context.program) {
    in_any_module_ = !context.model.functions.empty();  // a body represents many calls but names one
    for (const onnx_file::OnnxNode* node : context.nodes) {
      const metadata::Attribution attribution = metadata::attribution_of(*node, context.recorded);
      if (attribution.origin || node->op_type == "Constant") continue;
      if (!attribution.attributed()) in_any_module_ = true;
      for (const std::string& module : attribution.modules) {
        (attribution.confidence == origin::Confidence::ancestor ? enclosing_modules_ : exact_modules_).insert(module);
      }
    }
  }

  bool may_represent(ModuleId module) const {
    if (in_any_module_ || exact_modules_.count(program_.modules[module].path) > 0) return true;
    for (; module != none_id; module = program_.modules[module].parent) {
      if (enclosing_modules_.count(program_.modules[module].path) > 0) return true;
    }
    return false;
  }

 private:
  const Program& program_;
  bool in_any_module_ = false;
  std::set<std::string> exact_modules_, enclosing_modules_;
};

class FateFinder {
 public:
  explicit FateFinder(const CheckContext& context)
      : program_(*context.program), input_dependence_(program_), needed_(program_), unstamped_(context) {
    for (const Node* node : operations(program_)) fates_.push_back({node});
    read_stamps(context);
    fold(folded_operations(context));
    for (OperationFate& fate : fates_) {
      if (fate.fate == Fate::unknown) classify(fate);
    }
  }

  std::vector<OperationFate> take() { return std::move(fates_); }

 private:
  void read_stamps(const CheckContext& context) {
    for (const onnx_file::OnnxNode* node : context.nodes) {
      const auto stamp = origin::parse_stamp(onnx_file::find_property(node->metadata, keys::op).value_or(""));
      if (!stamp) continue;
      for (const std::int32_t op : stamp->ops) {
        if (static_cast<std::size_t>(op) >= fates_.size()) continue;
        Fate& fate = fates_[op].fate;
        if (stamp->kind == origin::OriginKind::own || stamp->ops.size() == 1) {
          fate = Fate::arrived;
        } else if (fate != Fate::arrived) {
          fate = Fate::fused;
        }
      }
    }
  }

  void fold(const std::set<std::int32_t>& operations) {
    for (const std::int32_t op : operations) {
      if (op < 0 || static_cast<std::size_t>(op) >= fates_.size()) continue;
      if (fates_[op].fate == Fate::unknown) fates_[op].fate = Fate::folded;
    }
  }

  void classify(OperationFate& result) const {
    const Node& node = *result.operation;
    const auto eliminated = [&](Elimination reason) {
      result.fate = Fate::eliminated;
      result.reason = reason;
    };
    const bool numbers = !node.outputs.empty() && std::ranges::all_of(node.outputs, [&](ValueId value) {
      return value.exists() && program_.values[value].type.kind != ValueKind::tensor;
    });
    if (!needed_(node)) return eliminated(Elimination::unused);
    if (is_identity(node)) return eliminated(Elimination::identity);
    if (numbers) return eliminated(Elimination::number);
    if (unstamped_.may_represent(program_.scopes[node.origin.scope].module)) return;
    if (!input_dependence_(node)) {
      result.fate = Fate::folded;
      return;
    }
    eliminated(Elimination::absorbed);
  }

  const Program& program_;
  InputDependence input_dependence_;
  NeededOperations needed_;
  UnstampedNodes unstamped_;
  std::vector<OperationFate> fates_;
};

}  // namespace

std::string_view name_of(Fate fate) {
  constexpr std::array<std::string_view, fate_count> names = {"arrived", "fused", "folded", "eliminated", "unknown"};
  return names[static_cast<std::size_t>(fate)];
}

std::string_view name_of(Elimination reason) {
  constexpr std::array<std::string_view, 5> names = {"", "identity", "unused", "number", "absorbed"};
  return names[static_cast<std::size_t>(reason)];
}

std::string_view text_of(Elimination reason) {
  constexpr std::array<std::string_view, 5> texts = {"", "compute nothing in evaluation", "nothing needs the result",
                                                     "sizes and numbers that need no node",
                                                     "expressed by the nodes around them"};
  return texts[static_cast<std::size_t>(reason)];
}

std::set<std::int32_t> folded_operations(const CheckContext& context) {
  std::set<std::int32_t> folded;
  for (const Constant& constant : context.program->constants) folded.insert(constant.ops.begin(), constant.ops.end());
  if (context.recorded == nullptr) return folded;
  const auto exported =
      origin::parse_ranges(onnx_file::find_property(context.model.metadata, keys::folded).value_or(""));
  if (exported) folded.insert(exported->begin(), exported->end());
  return folded;
}

std::vector<OperationFate> operation_fates(const CheckContext& context) { return FateFinder(context).take(); }

}  // namespace whence::validation
