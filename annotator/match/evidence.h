// Evidence: a finding of a rule about a node, and NodeMatch, the decision. All strengths are on one scale, on which one
// agreeing neighbour has 1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/match/index.h"
#include "annotator/origin/confidence.h"

namespace whence::match {

// In the order in which they are consulted, strongest first (match.cpp, then placement); the names are those of
// `pkg.whence.rule` and `whence explain`.
enum class MatchRule : std::uint8_t {
  none,
  carried,       // keys already on the node
  tokens,        // a line in its doc_string, left by annotate --carry
  kept_values,   // names of values in the tool's input
  values,        // numbers that a recorded operation returned as well
  names,         // scopes in node or value names
  initializers,  // parameter names
  digests,       // parameter bytes
  sketches,      // parameter elements, if the bytes changed
  shapes,        // parameter sizes that no other parameter has, if bytes changed
  fx_names,      // names that torch.export gives: linear_3
  structure,     // the node corresponds to a node of the reference
  cone,          // fused: everything between values that correspond
  layout,        // between two computing nodes, in the order of the recorded rearrangements
  inserted,      // by a tool, for an operator: a cast, quantisation, another layout
  dataflow,      // between nodes of one module
};
std::string_view name_of(MatchRule rule);
// Return true for evidence by the content of a parameter that the node reads, and by its content or name.
constexpr bool is_of_content(MatchRule rule) { return rule == MatchRule::digests || rule == MatchRule::sketches; }
constexpr bool is_of_parameter(MatchRule rule) { return is_of_content(rule) || rule == MatchRule::initializers; }
// Returns the reason that a rule gives, for users; an empty string for a word that is not a rule (`stamp`).
std::string_view sentence_of(std::string_view rule);

// Large files have several million of them: the order of the members leaves no gaps.
struct Evidence {
  Evidence() = default;
  Evidence(MatchRule by_rule, UnitIndex of_unit, ScopeIndex of_scope, double how_strong, std::string_view source = {},
           origin::Confidence at_most = origin::Confidence::matched)
      : rule(by_rule), max_confidence(at_most), unit(of_unit), scope(of_scope), strength(how_strong), from(source) {}

  MatchRule rule = MatchRule::none;
  // The highest confidence that evidence for a scope can give. A name that whence gave is not more certain than the
  // node was.
  origin::Confidence max_confidence = origin::Confidence::matched;
  UnitIndex unit;    // set if the rule finds the operation
  ScopeIndex scope;  // set if it finds only the module
  double strength = 0;
  std::string_view from;  // the name or key in the file; may be empty
};

using EvidenceTable = IndexedVector<ForeignNode, std::vector<Evidence>>;

struct NodeMatch {
  std::vector<UnitIndex> units = {};  // ascending; several: fused; empty: only the scope is known
  ScopeIndex scope;                   // lowest common one; none: unattributed
  origin::Confidence confidence = origin::Confidence::unattributed;
  MatchRule rule = MatchRule::none;
  bool shared = false;  // several units because it serves several, not because it replaced them
};

}  // namespace whence::match
