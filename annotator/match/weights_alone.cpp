#include "annotator/match/weights_alone.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "annotator/match/op_class.h"
#include "schema/element_count.h"
#include "schema/module_path.h"
#include "schema/sort_unique.h"

namespace whence::match {

using origin::Confidence;

namespace {

// The modules whose parameters a tensor holds: all of `parts` when it was put together of several, or one of
// `alternatives` where equal bytes leave it open.
struct Holding {
  std::vector<UnitIndex> parts, alternatives;
  MatchRule rule = MatchRule::none;
};

Holding holding_of(const std::vector<TensorSource>& sources, const Reference& reference) {
  Holding holding;
  std::vector<UnitIndex> named, alike;
  bool open = false;
  for (const TensorSource& source : sources) {
    if (source.how == TensorSource::How::shape) continue;
    const auto& units = reference.parameters[source.parameter].units;
    auto& list = source.how == TensorSource::How::name ? named : alike;
    list.insert(list.end(), units.begin(), units.end());
    if (source.how == TensorSource::How::name) continue;
    open = open || source.candidates > 1 || units.size() > 1;  // tied: of one of those that share it
    holding.rule = source.how == TensorSource::How::sketch ? MatchRule::sketches : MatchRule::digests;
  }
  sort_unique(named);
  sort_unique(alike);
  if (alike.empty()) {
    holding.rule = named.empty() ? MatchRule::none : MatchRule::initializers;
    holding.parts = std::move(named);
    return holding;
  }
  if (!open || alike.size() == 1) {
    holding.parts = std::move(alike);
    return holding;
  }
  for (const UnitIndex unit : named) {
    if (std::ranges::find(alike, unit) != alike.end()) holding.parts.push_back(unit);
  }
  if (holding.parts.size() != 1) {
    holding.parts.clear();
    holding.alternatives = std::move(alike);
  }
  return holding;
}

class ByWeights {
 public:
  ByWeights(Placement& placement, const TensorSources& tensors, const EvidenceTable& evidence)
      : placement_(placement),
        f_(placement.foreign),
        scopes_(placement.reference.scopes),
        evidence_(evidence),
        holdings_(f_.tensors.size()),
        misleading_(scopes_.size(), false),
        alternatives_(f_.nodes.size()),
        above_(f_.nodes.size()),
        below_(f_.nodes.size()),
        known_(f_.nodes.size(), false),
        children_(scopes_.size()),
        has_parameters_(scopes_.size(), false),
        read_once_(scopes_.size(), 0),
        read_often_(scopes_.size(), 0) {
    for (const ForeignTensor tensor : f_.tensors.keys()) {
      holdings_[tensor] = holding_of(tensors.of(tensor), placement.reference);
      for (const TensorSource& source : tensors.of(tensor)) {
        const bool by_bytes = source.by_content() && source.candidates == 1;
        if (by_bytes || source.how == TensorSource::How::name) met_.insert(source.parameter);
      }
    }
    for (const ScopeIndex scope : scopes_.keys()) {
      if (scopes_[scope].parent.exists()) children_[scopes_[scope].parent].push_back(scope);
    }
    for (const ReferenceUnit& unit : placement.reference.units.items()) has_parameters_[unit.scope] = true;
  }

  void place() {
    count_readers();
    for (const ForeignNode node : f_.order) place_reader(node);
    for (const ForeignNode node : f_.order) settle_alternatives(node);
    for (const ForeignNode node : f_.order) join_folded(node);
    learn_names();
    for (const ForeignNode node : f_.nodes.keys()) known_[node] = placement_.placed(node);
    find_frontiers();
    for (const ForeignNode node : f_.order) raise_fused(node);
    for (const ForeignNode node : f_.order) place_normalization(node);
    for (const ForeignNode node : f_.order) place_between(node);
    for (auto node = f_.order.rbegin(); node != f_.order.rend(); ++node) place_constant(*node);
  }

 private:
  // The tensors that a node reads, through what rearranges or dequantises them.
  std::vector<ForeignTensor> tensors_of(ForeignNode node) const {
    std::vector<ForeignTensor> found;
    for (const ForeignValue input : f_.nodes[node].inputs) {
      if (!input.exists() || !f_.values[input].constant) continue;
      const ForeignTensor tensor = f_.values[input].tensor.exists() ? f_.values[input].tensor : f_.root_tensor(input);
      if (tensor.exists()) found.push_back(tensor);
    }
    return found;
  }

  // A parameter that several nodes read alike is of a module that is called so often; of what lies between two nodes of
  // such a module nothing says that it ran within one call.
  void count_readers() {
    std::unordered_map<ForeignTensor, std::vector<ForeignNode>> readers;
    for (const ForeignNode node : f_.nodes.keys()) {
      if (f_.nodes[node].kind == NodeKind::constant) continue;
      for (const ForeignTensor tensor : tensors_of(node)) readers[tensor].push_back(node);
    }
    for (const auto& [tensor, nodes] : readers) {
      see_table(tensor, nodes);
      const std::string_view first = f_.nodes[nodes.front()].op_type;
      const auto alike = std::ranges::count_if(nodes, [&](ForeignNode node) { return f_.nodes[node].op_type == first; });
      for (const UnitIndex unit : holdings_[tensor].parts) {
        for (ScopeIndex at = placement_.reference.units[unit].scope; at.exists(); at = scopes_[at].parent) {
          ++(alike > 1 ? read_often_ : read_once_)[at];
        }
      }
    }
  }

  // Modules whose one parameter is a matrix "weight" of which rows are picked: Embeddings.
  void see_table(ForeignTensor tensor, const std::vector<ForeignNode>& readers) {
    if (!holds_table(tensor)) return;
    const bool picked = std::ranges::any_of(readers, [&](ForeignNode node) { return f_.nodes[node].op_type == "Gather"; });
    if (picked) picked_.insert(holdings_[tensor].parts.front());
  }
  bool holds_table(ForeignTensor tensor) const {
    const auto& dims = f_.tensors[tensor].dims;
    if (holdings_[tensor].parts.size() != 1 || std::ranges::count_if(dims, [](auto size) { return size > 1; }) < 2) return false;
    const auto& parameters = placement_.reference.parameters_of_unit[holdings_[tensor].parts.front()];
    return parameters.size() == 1 && is_matrix(parameters.front()) &&
           last_segment(placement_.reference.parameters[parameters.front()].names.front()) == "weight";
  }

  void place_reader(ForeignNode node) {
    std::vector<UnitIndex> sure;
    std::vector<std::vector<UnitIndex>> open;
    MatchRule rule = MatchRule::none;
    bool changed = false;
    for (const ForeignTensor tensor : tensors_of(node)) {
      const Holding& holding = holdings_[tensor];
      sure.insert(sure.end(), holding.parts.begin(), holding.parts.end());
      if (!holding.alternatives.empty()) open.push_back(holding.alternatives);
      if (holding.parts.empty()) continue;
      rule = rule == MatchRule::none ? holding.rule : std::min(rule, holding.rule);
      changed = changed || holding.rule != MatchRule::digests;
    }
    sort_unique(sure);
    if (!sure.empty()) {
      placement_.place(node, sure, rule == MatchRule::initializers ? Confidence::inferred : Confidence::matched, rule);
      if (is_of_another(node)) return place_around(node, scopes_[placement_.matches[node].scope].parent);
      if (changed) take_in_norm(node);
      return;
    }
    if (open.empty()) return;
    alternatives_[node] = open.front();
    for (const auto& each : open) {
      std::erase_if(alternatives_[node], [&](UnitIndex unit) { return std::ranges::find(each, unit) == each.end(); });
    }
  }

  // A table whose rows were picked while the file was made stands in the sum that took them; a product with a table is of
  // a module that shares it; and a convolution of which only the bias is known may have taken in a norm.
  bool is_of_another(ForeignNode node) const {
    const auto& entry = f_.nodes[node];
    const bool adds = entry.op_type == "Add";
    const bool multiplies = (is_product(entry.op_class) && !is_convolution(entry.op_type)) || entry.op_type == "Transpose";
    for (const ForeignTensor tensor : tensors_of(node)) {
      if (holds_table(tensor) && (adds || (multiplies && picked_.contains(holdings_[tensor].parts.front())))) return true;
    }
    if (!is_convolution(entry.op_type)) return false;
    return std::ranges::none_of(tensors_of(node), [&](ForeignTensor tensor) {
      return f_.tensors[tensor].dims.size() > 2 && !holdings_[tensor].parts.empty();
    });
  }
  static bool is_convolution(std::string_view op_type) {
    static const std::set<std::string_view> convolutions = {"Conv", "ConvInteger", "ConvTranspose", "FusedConv",
                                                            "NhwcConv", "QLinearConv"};
    return convolutions.contains(op_type);
  }

  // A bias, or a scale, whose bytes several modules have is of the one whose product or norm it stands behind.
  void settle_alternatives(ForeignNode node) {
    const std::vector<UnitIndex>& candidates = alternatives_[node];
    if (placement_.placed(node) || candidates.empty()) return;
    std::vector<UnitIndex> beside;
    for (const auto& list : {placement_.sources(node), placement_.readers(node)}) {
      for (const ForeignNode other : list) {
        for (const UnitIndex unit : placement_.matches[other].units) {
          if (std::ranges::find(candidates, unit) != candidates.end()) beside.push_back(unit);
        }
      }
    }
    sort_unique(beside);
    if (candidates.size() == 1) beside = candidates;
    if (beside.size() == 1) placement_.place(node, beside, Confidence::matched, MatchRule::digests);
  }

  // A convolution with other numbers than its module's has taken in the norm behind it, if nothing of that one's
  // statistics is left in the file.
  void take_in_norm(ForeignNode node) {
    if (!is_convolution(f_.nodes[node].op_type)) return;
    NodeMatch& match = placement_.matches[node];
    match.confidence = std::max(match.confidence, Confidence::inferred);  // what else it took in nothing says
    if (!has_bias(node)) return;
    const UnitIndex own = match.units.front();
    const std::vector<UnitIndex> norms = norms_beside(own);
    if (norms.size() == 1) {
      folded_.emplace(own, norms.front());
      folded_.emplace(norms.front(), own);
    } else if (!norms.empty()) {
      place_around(node, scopes_[match.scope].parent);
    }
  }

  // A norm leaves a bias; one of integers is added behind the convolution and its scale.
  bool has_bias(ForeignNode node) const {
    constexpr std::size_t bias = 2;
    constexpr int farthest = 4;
    if (f_.nodes[node].op_type != "ConvInteger") {
      return f_.nodes[node].inputs.size() > bias && f_.nodes[node].inputs[bias].exists();
    }
    for (int step = 0; step < farthest; ++step) {
      const auto readers = placement_.readers(node);
      if (readers.size() != 1) return false;
      node = readers.front();
      const auto vectors = std::ranges::count_if(tensors_of(node), [&](ForeignTensor each) {
        return f_.tensors[each].elements() > 1;
      });
      if (vectors > 0) return f_.nodes[node].op_type == "Add";
    }
    return false;
  }

  // The norms that a convolution may have taken in: of as many channels, as near in the tree as any, and with the number
  // that the convolution's name ends in, "conv2" and "bn2", or the next one of a Sequential.
  std::vector<UnitIndex> norms_beside(UnitIndex own) const {
    const auto& units = placement_.reference.units;
    const ScopeIndex scope = units[own].scope;
    std::vector<UnitIndex> found;
    int nearest = 0;
    for (const UnitIndex unit : units.keys()) {
      if (!is_lost_norm(unit, own)) continue;
      const int depth = scopes_[scopes_.common(units[unit].scope, scope)].depth;
      if (depth > nearest) found.clear();
      if (depth >= nearest) found.push_back(unit);
      nearest = std::max(nearest, depth);
    }
    if (found.size() < 2) return found;
    const auto number = [&](UnitIndex unit) { return number_at_end(scopes_[units[unit].scope].path); };
    const auto same = std::ranges::find(found, number(own), number);
    if (same != found.end()) return {*same};
    std::erase_if(found, [&](UnitIndex unit) { return number(unit) < number(own); });
    if (found.empty()) return {};
    return {*std::ranges::min_element(found, {}, number)};
  }

  // Scales and statistics for each channel of the convolution, and nothing else, of which the file holds none.
  bool is_lost_norm(UnitIndex unit, UnitIndex convolution) const {
    const auto& reference = placement_.reference;
    std::int64_t channels = 0;
    for (const ParameterIndex i : reference.parameters_of_unit[unit]) {
      const std::int64_t elements = element_count(reference.parameters[i].dims);
      if (elements == 1) continue;
      if (met_.contains(i) || (channels > 0 && elements != channels) || is_matrix(i)) return false;
      channels = elements;
    }
    return channels > 0 && std::ranges::any_of(reference.parameters_of_unit[convolution], [&](ParameterIndex weight) {
             const auto& dims = reference.parameters[weight].dims;
             return dims.size() > 2 && (dims[0] == channels || dims[1] == channels);
           });
  }
  bool is_matrix(ParameterIndex parameter) const {
    return std::ranges::count_if(placement_.reference.parameters[parameter].dims,
                                 [](std::int64_t size) { return size > 1; }) > 1;
  }

  static int number_at_end(std::string_view path) {
    const std::size_t last = path.find_last_not_of("0123456789");
    const std::string_view digits = path.substr(last + 1);
    return digits.empty() || digits.size() > 6 ? -1 : std::stoi(std::string(digits));
  }

  // What reads weights of either is of both.
  void join_folded(ForeignNode node) {
    const NodeMatch& match = placement_.matches[node];
    std::vector<UnitIndex> units = match.units;
    for (const UnitIndex unit : match.units) {
      const auto other = folded_.find(unit);
      if (other != folded_.end()) units.push_back(other->second);
    }
    if (units.size() > match.units.size()) placement_.place(node, units, Confidence::inferred, match.rule);
  }

  // The modules of the nearest nodes before and behind each node that are known by what they read.
  void find_frontiers() {
    constexpr std::size_t most = 8;
    const auto see = [&](std::vector<ScopeIndex>& list, ForeignNode other, const auto& beyond) {
      const auto add = [&](ScopeIndex scope) {
        if (list.size() < most && std::ranges::find(list, scope) == list.end()) list.push_back(scope);
      };
      if (known_[other]) return add(placement_.matches[other].scope);
      for (const ScopeIndex scope : beyond[other]) add(scope);
    };
    for (const ForeignNode node : f_.order) {
      for (const ForeignNode source : placement_.sources(node)) see(above_[node], source, above_);
    }
    for (auto node = f_.order.rbegin(); node != f_.order.rend(); ++node) {
      for (const ForeignNode reader : placement_.readers(*node)) see(below_[*node], reader, below_);
    }
  }

  // The innermost module, called once, that holds a call of one of `before` and one of `behind`.
  ScopeIndex around(const std::vector<ScopeIndex>& before, const std::vector<ScopeIndex>& behind) const {
    ScopeIndex best = root_scope;
    for (const ScopeIndex a : before) {
      for (const ScopeIndex b : behind) {
        ScopeIndex common = scopes_.common(a, b);
        while (common != root_scope && (is_container(common) || is_called_often(common))) common = scopes_[common].parent;
        if (scopes_[common].depth > scopes_[best].depth) best = common;
      }
    }
    return best;
  }

  // A list of modules is never called, and a Sequential looks the same.
  bool is_container(ScopeIndex scope) const {
    if (has_parameters_[scope]) return false;
    return !children_[scope].empty() && std::ranges::all_of(children_[scope], [&](ScopeIndex child) {
      return std::ranges::all_of(last_segment(scopes_[child].path), [](unsigned char c) { return std::isdigit(c) != 0; });
    });
  }
  bool is_called_often(ScopeIndex scope) const { return read_often_[scope] > 0 && read_once_[scope] == 0; }

  void place_around(ForeignNode node, ScopeIndex scope) {
    NodeMatch& match = placement_.matches[node];
    match = {.scope = std::max(scope, root_scope), .confidence = Confidence::ancestor, .rule = MatchRule::dataflow};
  }

  // A runtime's fused operator is also of what it took in: a sum before a norm, an activation behind a product.
  void raise_fused(ForeignNode node) {
    const auto& entry = f_.nodes[node];
    if (!known_[node] || !origin::is_of_runtime(entry.domain)) return;
    const bool sums = entry.op_type.starts_with("Skip");
    const bool activates = entry.states_activation || entry.op_type.starts_with("Fused") || entry.op_type.starts_with("Bias") ||
                           entry.op_type.ends_with("Gelu");
    if (!sums && !activates) return;
    const std::vector<ScopeIndex> own = {placement_.matches[node].scope};
    place_around(node, sums ? around(above_[node], own) : around(own, below_[node]));
  }

  // The arithmetic of a norm that is written out, before its scale: nodes that nothing else reads, back to a mean.
  void place_normalization(ForeignNode scale) {
    if (!known_[scale] || f_.nodes[scale].op_type != "Mul" || placement_.matches[scale].units.size() != 1) return;
    constexpr std::size_t most = 16;
    std::vector<ForeignNode> found = {scale};
    bool mean = false;
    for (std::size_t i = 0; i < found.size() && found.size() < most; ++i) {
      for (const ForeignNode source : placement_.sources(found[i])) {
        if (known_[source] || !may_normalize(source) || std::ranges::find(found, source) != found.end()) continue;
        found.push_back(source);
        mean = mean || f_.nodes[source].op_type == "ReduceMean" || f_.nodes[source].op_type == "InstanceNormalization";
      }
    }
    for (bool left = true; left;) {
      left = std::erase_if(found, [&](ForeignNode node) {
               return node != scale && std::ranges::any_of(placement_.readers(node), [&](ForeignNode reader) {
                        return std::ranges::find(found, reader) == found.end();
                      });
             }) > 0;
    }
    if (!mean) return;
    for (const ForeignNode node : found) {
      if (node == scale) continue;
      placement_.place(node, placement_.matches[scale].units, Confidence::inferred, MatchRule::dataflow);
    }
  }

  bool may_normalize(ForeignNode node) const {
    static const std::set<std::string_view> operators = {"Cast", "Div", "InstanceNormalization", "Mul", "Pow", "Reciprocal",
                                                         "ReduceMean", "Reshape", "Sqrt", "Sub"};
    const auto& entry = f_.nodes[node];
    if (operators.contains(entry.op_type)) return true;
    return entry.op_type == "Add" && std::ranges::any_of(entry.inputs, [&](ForeignValue input) {
             return input.exists() && f_.values[input].constant;
           });
  }

  // What names say of a node, of equally strong ones the last.
  const Evidence* stated(ForeignNode node) const {
    const Evidence* best = nullptr;
    for (const Evidence& each : evidence_[node]) {
      if (each.scope.exists() && (best == nullptr || each.strength >= best->strength)) best = &each;
    }
    return best;
  }
  const Evidence* named(ForeignNode node) const {
    const Evidence* name = stated(node);
    return name != nullptr && !misleading_[name->scope] ? name : nullptr;
  }

  // Names mislead where they say another module than the weights: those of another vocabulary, and second names of one
  // module. So do those of the modules around, as far as the two differ.
  void learn_names() {
    for (const ForeignNode node : f_.nodes.keys()) {
      const Evidence* name = placement_.placed(node) ? stated(node) : nullptr;
      if (name == nullptr || f_.nodes[node].kind == NodeKind::constant) continue;
      const ScopeIndex own = placement_.matches[node].scope;
      if (scopes_.within(name->scope, own) || scopes_.within(own, name->scope)) continue;
      // A tool keeps the name of a neighbour, which is no other vocabulary.
      const ScopeIndex common = scopes_.common(own, name->scope);
      if (has_parameters_[name->scope]) continue;
      for (ScopeIndex at = name->scope; at.exists() && at != common; at = scopes_[at].parent) misleading_[at] = true;
    }
  }

  void place_between(ForeignNode node) {
    const auto& entry = f_.nodes[node];
    if (placement_.placed(node) || entry.kind == NodeKind::constant) return;
    const bool between = !above_[node].empty() && !below_[node].empty();
    const ScopeIndex holds = !between ? root_scope : entry.computes_sizes ? around_all(node) : around(above_[node], below_[node]);
    if (place_by_name(node, holds)) return;
    place_around(node, holds);
    const bool alone = holds != root_scope && children_[holds].empty() && has_parameters_[holds];
    if (between && alone) placement_.matches[node].confidence = Confidence::inferred;
  }

  // Exporters merge sizes that several modules compute: all readers count.
  ScopeIndex around_all(ForeignNode node) const {
    ScopeIndex scope;
    for (const ScopeIndex behind : below_[node]) scope = scopes_.together(scope, around(above_[node], {behind}));
    return std::max(scope, root_scope);
  }

  // Returns false where no name says anything.
  bool place_by_name(ForeignNode node, ScopeIndex holds) {
    const Evidence* name = named(node);
    if (name == nullptr) return false;
    // Tools put a Reshape around a product and give it that one's name, or merge it with one that was there; a
    // convolution keeps the name of one of those that it took in.
    const auto& entry = f_.nodes[node];
    const bool may_be_a_tools = entry.kind == NodeKind::transparent && has_parameters_[name->scope];
    if (!scopes_.within(name->scope, holds) || may_be_a_tools || is_convolution(entry.op_type)) {
      const ScopeIndex scope = is_convolution(entry.op_type) ? scopes_[name->scope].parent : name->scope;
      place_around(node, scopes_.common(holds, scope));
      return true;
    }
    for (const auto& [unit, other] : folded_) {
      if (placement_.reference.units[unit].scope != name->scope) continue;
      placement_.place(node, {unit, other}, Confidence::inferred, name->rule);
      return true;
    }
    const auto confidence = std::max(name->strength > 1 ? Confidence::inferred : Confidence::ancestor, name->surest);
    placement_.matches[node] = {.scope = name->scope, .confidence = confidence, .rule = name->rule};
    return true;
  }

  // A number or a list of sizes that one operator takes is of that one's module. What is computed from constants may be
  // handed in from any module around, and so may what a table is asked for.
  void place_constant(ForeignNode node) {
    const auto& entry = f_.nodes[node];
    if (placement_.placed(node)) return;
    ScopeIndex scope;
    Confidence weakest = Confidence::exact;
    bool own = entry.op_type == "Constant";
    for (const ForeignNode reader : placement_.readers(node)) {
      const NodeMatch& match = placement_.matches[reader];
      own = own && match.scope.exists() && f_.nodes[reader].op_type != "Gather";
      scope = scopes_.together(scope, match.scope);
      weakest = std::max(weakest, match.confidence);
    }
    if (place_by_name(node, own ? scope : root_scope)) return;
    place_around(node, own ? scope : root_scope);
    const auto readers = placement_.readers(node);
    const bool one = own && std::ranges::all_of(readers, [&](ForeignNode reader) {
                       return placement_.matches[reader].scope == scope;
                     });
    if (one && !readers.empty()) placement_.matches[node].confidence = std::max(weakest, Confidence::inferred);
  }

  Placement& placement_;
  const ForeignStructure& f_;
  const origin::CallTree& scopes_;
  const EvidenceTable& evidence_;
  IndexedVector<ForeignTensor, Holding> holdings_;
  std::set<ParameterIndex> met_;                  // parameters that the file holds by their bytes or name
  std::set<UnitIndex> picked_;                    // Embeddings
  std::map<UnitIndex, UnitIndex> folded_;         // a convolution and the norm that it took in, either way
  IndexedVector<ScopeIndex, bool> misleading_;    // modules that names say where weights say others
  IndexedVector<ForeignNode, std::vector<UnitIndex>> alternatives_;
  IndexedVector<ForeignNode, std::vector<ScopeIndex>> above_, below_;
  IndexedVector<ForeignNode, bool> known_;  // placed by what it reads
  IndexedVector<ScopeIndex, std::vector<ScopeIndex>> children_;
  IndexedVector<ScopeIndex, bool> has_parameters_;
  IndexedVector<ScopeIndex, int> read_once_, read_often_;  // parameters below, by how many nodes read each alike
};

}  // namespace

void place_by_weights(Placement& placement, const TensorSources& tensors, const EvidenceTable& evidence) {
  ByWeights(placement, tensors, evidence).place();
}

}  // namespace whence::match
