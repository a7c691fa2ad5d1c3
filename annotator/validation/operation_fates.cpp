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

// True for each value that depends on an input of the model. What a branch or loop makes does.
class Varying {
 public:
  explicit Varying(const Program& program) : varies_(program.values.size()) {
    for (const ProgramInput& input : program.inputs) mark(input.value);
    walk(program.body);
  }

  bool operator()(const Node& node) const {
    bool varies = !node.blocks.empty();
    each_operand(node, [&](ValueId value) { varies = varies || has(value); });
    return varies;
  }

 private:
  bool has(ValueId value) const { return value.exists() && varies_[value]; }
  void mark(ValueId value) {
    if (value.exists()) varies_[value] = true;
  }
  void walk(const Block& block) {
    for (const ValueId input : block.inputs) mark(input);
    for (const Node& node : block.nodes) {
      for (const Block& inner : node.blocks) walk(inner);
      if (!(*this)(node)) continue;
      for (const ValueId output : node.outputs) mark(output);
    }
  }

  IndexedVector<ValueId, bool> varies_;
};

// True for each operation that an output of the model needs.
class Needed {
 public:
  explicit Needed(const Program& program) : used_(program.values.size()) {
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
  if (target.ends_with('_')) target.remove_suffix(1);  // in place
  const Identity identity = facts_of(target).identity;
  return identity != Identity::never && identity != Identity::same_shape;
}

// Nodes that do not say which operations they stand for, so that one without a node may be theirs.
class Silent {
 public:
  explicit Silent(const CheckContext& context) : program_(*context.program) {
    anywhere_ = !context.model.functions.empty();  // their bodies stand for many calls, and name one
    for (const onnx_file::OnnxNode* node : context.nodes) {
      const metadata::Attribution attribution = metadata::attribution_of(*node, context.recorded);
      if (attribution.origin || node->op_type == "Constant") continue;
      if (!attribution.attributed()) anywhere_ = true;
      for (const std::string& module : attribution.modules) {
        (attribution.confidence == origin::Confidence::ancestor ? enclosing_ : own_).insert(module);
      }
    }
  }

  bool may_hold(ModuleId module) const {
    if (anywhere_ || own_.count(program_.modules[module].path) > 0) return true;
    for (; module != none_id; module = program_.modules[module].parent) {
      if (enclosing_.count(program_.modules[module].path) > 0) return true;
    }
    return false;
  }

 private:
  const Program& program_;
  bool anywhere_ = false;
  std::set<std::string> own_, enclosing_;
};

class Inquest {
 public:
  explicit Inquest(const CheckContext& context)
      : program_(*context.program), varying_(program_), needed_(program_), silent_(context) {
    for (const Node* node : operations(program_)) fates_.push_back({node});
    read_stamps(context);
    fold(folded_operations(context));
    for (OperationFate& fate : fates_) {
      if (fate.fate == Fate::unknown) judge(fate);
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

  void judge(OperationFate& to) const {
    const Node& node = *to.operation;
    const auto eliminated = [&](Elimination reason) {
      to.fate = Fate::eliminated;
      to.reason = reason;
    };
    const bool numbers = !node.outputs.empty() && std::ranges::all_of(node.outputs, [&](ValueId value) {
      return value.exists() && program_.values[value].type.kind != ValueKind::tensor;
    });
    if (!needed_(node)) return eliminated(Elimination::unused);
    if (is_identity(node)) return eliminated(Elimination::identity);
    if (numbers) return eliminated(Elimination::number);
    if (silent_.may_hold(program_.scopes[node.origin.scope].module)) return;
    if (!varying_(node)) {
      to.fate = Fate::folded;
      return;
    }
    eliminated(Elimination::absorbed);
  }

  const Program& program_;
  Varying varying_;
  Needed needed_;
  Silent silent_;
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

std::vector<OperationFate> operation_fates(const CheckContext& context) { return Inquest(context).take(); }

}  // namespace whence::validation
