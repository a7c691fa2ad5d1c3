#include "annotator/match/contradicted_names.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/match/name_paths.h"
#include "annotator/text/path_segments.h"
#include "schema/module_path.h"

namespace whence::match {

using origin::Confidence;

namespace {

// The module whose own parameters a node reads; none if they belong to several.
struct WeightsRead {
  ScopeIndex scope;
  std::set<std::string> suffixes;  // weight, bias
};

class Names {
 public:
  explicit Names(const Reference& reference) : reference_(reference) {
    for (const ReferenceParameter& parameter : reference.parameters) {
      for (const UnitIndex unit : parameter.units) {
        const ScopeIndex scope = reference.units[unit].scope;
        own_[scope].insert(last_segment(parameter.names.front()));
        for (ScopeIndex each = reference.scopes[scope].parent; each.exists(); each = reference.scopes[each].parent) {
          around_.insert(each);
        }
      }
    }
  }

  WeightsRead weights_read(const std::vector<Evidence>& evidence) const {
    WeightsRead read;
    for (const Evidence& each : evidence) {
      if (each.rule != MatchRule::initializers || !each.unit.exists()) continue;
      const ScopeIndex scope = reference_.units[each.unit].scope;
      if (read.scope.exists() && read.scope != scope) return {};
      read.scope = scope;
      read.suffixes.insert(last_segment(each.from));
    }
    return read;
  }

  SettledName settle(const Evidence& name, std::string_view path, const WeightsRead& read) const {
    const SettledName agreed{name.scope}, weights{read.scope};
    if (name.scope == read.scope || path.empty()) return agreed;
    // A key of a ModuleDict may contain a slash, which is compared like the dots between modules.
    std::string module = reference_.scopes[read.scope].path;
    std::ranges::replace(module, '/', '.');
    const std::vector<std::string> first = first_calls(path);  // the path may be that of a second call
    const auto means = [&](std::string_view each) { return may_mean(each, module); };
    if (!means(path) && std::ranges::none_of(first, means)) return agreed;
    const SettledName either{reference_.scopes.common(name.scope, read.scope), Confidence::ancestor};
    // A module may read the weights of a module inside it.
    if (either.scope == name.scope) return module_of_path(path) == module ? weights : either;
    if (around_.contains(name.scope)) return weights;
    const auto own = own_.find(name.scope);
    // A module that has its own weight in the file does not read the weight of another instead.
    const bool has_its_own = own != own_.end() && std::ranges::any_of(read.suffixes, [&](const std::string& suffix) {
                               return own->second.contains(suffix);
                             });
    // One tensor may be tied, but a weight together with a bias identifies the module.
    const bool unknown = own == own_.end() && read.suffixes.size() > 1;
    return has_its_own || unknown ? weights : either;
  }

 private:
  // Returns true if the module ends like the path, and is either the path with additional containers or only its end.
  static bool may_mean(std::string_view path, std::string_view module) {
    const std::string named = module_of_path(path);
    if (module == named) return true;
    const std::string_view last = path.substr(path.rfind('/') + 1);
    const auto ends_with = [](std::string_view text, std::string_view end) {
      return text == end ||
             (text.size() > end.size() && text.ends_with(end) && text[text.size() - end.size() - 1] == '.');
    };
    if (!ends_with(module, last)) return false;
    const auto within = text::path_segments(named);
    auto part = within.begin();
    for (const std::string_view segment : text::path_segments(module)) {
      if (part != within.end() && segment == *part) ++part;
    }
    return part == within.end() || ends_with(named, module);
  }

  const Reference& reference_;
  std::map<ScopeIndex, std::set<std::string>> own_;  // parameters by their modules
  std::set<ScopeIndex> around_;                      // modules around them
};

const Evidence* name_among(const std::vector<Evidence>& evidence) {
  const auto found = std::ranges::find(evidence, MatchRule::names, &Evidence::rule);
  return found == evidence.end() ? nullptr : &*found;
}

}  // namespace

IndexedVector<ForeignNode, SettledName> settle_contradicted_names(const Reference& reference, const ScopeReader& reader,
                                                                  const EvidenceTable& evidence) {
  struct Named {
    ForeignNode node;
    const Evidence* name;
    std::string_view path;
  };
  IndexedVector<ForeignNode, SettledName> settled(evidence.size());
  const Names names(reference);
  std::vector<Named> named;
  std::map<std::string_view, SettledName> by_path;  // for all nodes of a path that read weights
  for (const ForeignNode i : evidence.keys()) {
    const Evidence* name = name_among(evidence[i]);
    if (name == nullptr) continue;
    const std::string_view path = named.emplace_back(Named{i, name, reader.read(name->from).path}).path;
    const WeightsRead read = names.weights_read(evidence[i]);
    if (!read.scope.exists()) continue;
    settled[i] = names.settle(*name, path, read);
    const auto [known, is_new] = by_path.emplace(path, settled[i]);
    if (is_new) continue;
    if (known->second.scope != settled[i].scope) {
      known->second = {reference.scopes.common(known->second.scope, settled[i].scope), Confidence::ancestor};
    }
  }
  for (const auto& [node, name, path] : named) {
    if (!settled[node].scope.exists()) {
      const auto known = by_path.find(path);
      if (known == by_path.end()) continue;
      settled[node] = known->second;
    }
    if (settled[node].scope == name->scope && settled[node].max_confidence != Confidence::ancestor) settled[node] = {};
  }
  return settled;
}

}  // namespace whence::match
