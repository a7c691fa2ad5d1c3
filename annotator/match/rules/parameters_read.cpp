// The parameters that a node reads, found by name or by bytes (tensor_sources.h), point to the operations that read
// them in the program. Equal bytes make several candidates; the structure decides among them.
#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <vector>

#include "annotator/match/file_structure.h"
#include "annotator/match/rules/rule.h"
#include "schema/module_path.h"

namespace whence::match {

namespace {

bool may_be_uniform(const StructureTensor& tensor) { return tensor.bytes.empty() || tensor.is_uniform(); }

// The tensors with a name that is no evidence of one module: tools store equal tensors of several modules once, under
// one of their names, and tied weights have one of their names.
class AmbiguousNames {
 public:
  explicit AmbiguousNames(const RuleContext& context)
      : context_(context),
        structure_(context.foreign.structure),
        readers_(structure_.tensors.size()),
        ambiguous_(structure_.tensors.size(), false) {
    for (const ForeignNode i : structure_.nodes.keys()) {
      if (structure_.nodes[i].kind == NodeKind::constant) continue;
      for (const ForeignValue input : structure_.nodes[i].inputs) {
        const ForeignTensor tensor = input.exists() ? structure_.root_tensor(input) : ForeignTensor();
        if (tensor.exists() && (readers_[tensor].empty() || readers_[tensor].back() != i)) {
          readers_[tensor].push_back(i);
        }
      }
    }
    for (const ReferenceParameter& parameter : context.reference.parameters) {
      if (last_segment(parameter.names.front()) != "bias") continue;
      for (const UnitIndex unit : parameter.units) with_bias_.insert(context.reference.units[unit].scope);
    }
    for (const ForeignTensor tensor : readers_.keys()) ambiguous_[tensor] = is_ambiguous(tensor);
  }

  bool contains(ForeignTensor tensor) const { return ambiguous_[tensor]; }
  bool is_shared(ForeignTensor tensor) const { return readers_[tensor].size() > 1; }

 private:
  bool is_ambiguous(ForeignTensor tensor) const {
    const auto& sources = context_.tensors.of(tensor);
    const auto name = std::ranges::find(sources, TensorSource::How::name, &TensorSource::how);
    if (name == sources.end()) return false;
    if (std::ranges::any_of(sources, &TensorSource::by_content)) return name->is_open_name();
    const bool only_by_names = context_.reference.structure.nodes.empty();
    if (only_by_names && is_gathered(tensor) && has_bias(name->parameter)) return true;
    // The reference does not have these bytes. Tools merge tensors that are equal in the file as well.
    const bool shared = is_shared(tensor);
    if (!shared && !name->is_open_name()) return false;
    const bool uniform = structure_.tensors[tensor].elements() > 1 && may_be_uniform(structure_.tensors[tensor]);
    release_bytes(context_.model, context_.foreign.external.get(), structure_.tensors[tensor]);
    if (uniform || (shared && name->is_open_name())) return true;
    return only_by_names && has_different_readers(tensor);
  }

  // Returns true if a Gather reads the tensor. An Embedding has no bias, so a module with a bias then only gave its
  // name to a weight that is tied to the Embedding's.
  bool is_gathered(ForeignTensor tensor) const {
    return std::ranges::any_of(readers_[tensor],
                               [&](ForeignNode reader) { return structure_.nodes[reader].op_type == "Gather"; });
  }
  bool has_bias(ParameterIndex parameter) const {
    return std::ranges::any_of(context_.reference.parameters[parameter].units, [&](UnitIndex unit) {
      return with_bias_.contains(context_.reference.units[unit].scope);
    });
  }

  // Returns true if readers with different operators share the tensor. Readers with one operator are calls of one
  // module or of its copies, for which other evidence decides.
  bool has_different_readers(ForeignTensor tensor) const {
    std::string_view first;
    for (const ForeignNode reader : readers_[tensor]) {
      if (structure_.nodes[reader].kind != NodeKind::heavy) continue;
      if (first.empty()) first = structure_.nodes[reader].op_type;
      if (structure_.nodes[reader].op_type != first) return true;
    }
    return false;
  }

  const RuleContext& context_;
  const ForeignStructure& structure_;
  IndexedVector<ForeignTensor, std::vector<ForeignNode>> readers_;
  IndexedVector<ForeignTensor, bool> ambiguous_;
  std::set<ScopeIndex> with_bias_;  // modules
};

struct SourceStrength {
  MatchRule rule;
  double strength;
};

SourceStrength strength_of(TensorSource::How how) {
  switch (how) {
    case TensorSource::How::name:
      return {MatchRule::initializers, 1.8};
    case TensorSource::How::bytes:
    case TensorSource::How::part:
      return {MatchRule::digests, 2};
    case TensorSource::How::sketch:
      return {MatchRule::sketches, 1.9};
    case TensorSource::How::shape:
      return {MatchRule::shapes, 0.4};
  }
  return {MatchRule::none, 0};
}

}  // namespace

void parameters_read(const RuleContext& context, EvidenceTable& table) {
  constexpr std::size_t max_readers = 64;  // a parameter with more readers is no evidence
  constexpr double below_metadata = 1.4;   // carried_keys
  const ForeignStructure& structure = context.foreign.structure;
  const bool only_by_names = context.reference.structure.nodes.empty();
  const AmbiguousNames ambiguous(context);
  for (const ForeignNode i : structure.nodes.keys()) {
    const auto& node = structure.nodes[i];
    for (const ForeignValue input : node.inputs) {
      if (!input.exists() || !structure.values[input].constant) continue;
      const ForeignTensor tensor =
          node.kind == NodeKind::constant ? structure.values[input].tensor : structure.root_tensor(input);
      if (!tensor.exists()) continue;
      for (const TensorSource& source : context.tensors.of(tensor)) {
        const bool by_name = source.how == TensorSource::How::name;
        if (by_name && ambiguous.contains(tensor)) continue;
        if (context.reference.parameters[source.parameter].units.size() > max_readers) continue;
        for (const UnitIndex unit : context.reference.parameters[source.parameter].units) {
          const SourceStrength found = strength_of(source.how);
          const double sharers = static_cast<double>(context.reference.parameters[source.parameter].units.size());
          double strength = found.strength / std::sqrt(by_name ? sharers : sharers * source.candidates);
          if (only_by_names && ambiguous.is_shared(tensor)) strength = std::min(strength, below_metadata);
          table[i].push_back({found.rule, unit, {}, strength, structure.tensors[tensor].name});
        }
      }
    }
  }
}

}  // namespace whence::match
