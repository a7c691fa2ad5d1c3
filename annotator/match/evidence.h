// Evidence: what a rule finds about a node before anything is decided, and NodeMatch, the decision. All strengths are
// on one scale, on which one agreeing neighbour has 1.
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
  kept_values,   // names of values in the file before the tool
  values,        // numbers that a recorded operation returned, too
  names,         // scopes in node or value names
  initializers,  // parameter names
  digests,       // parameter bytes
  sketches,      // parameter elements, where the bytes changed
  shapes,        // parameter sizes that no other parameter has, if bytes changed
  fx_names,      // names that torch.export gives: linear_3
  structure,     // the node corresponds to a node of the reference
  cone,          // fused: everything between values that correspond
  layout,        // between two computing nodes, in the order of the recorded rearrangements
  inserted,      // a tool put it there for an operator: a cast, quantisation, another layout
  dataflow,      // between nodes of one module
};
std::string_view name_of(MatchRule rule);
// The content of a parameter that the node reads says so; and that or the parameter's name.
constexpr bool is_of_content(MatchRule rule) { return rule == MatchRule::digests || rule == MatchRule::sketches; }
constexpr bool is_of_parameter(MatchRule rule) { return is_of_content(rule) || rule == MatchRule::initializers; }
// Returns the reason to believe a rule, for users; empty for a word that is not a rule (`stamp`).
std::string_view sentence_of(std::string_view rule);

// In an order that leaves no gaps: large files have several million.
struct Evidence {
  Evidence() = default;
  Evidence(MatchRule by_rule, UnitIndex of_unit, ScopeIndex of_scope, double how_strong, std::string_view said_by = {},
           origin::Confidence at_most = origin::Confidence::matched)
      : rule(by_rule), surest(at_most), unit(of_unit), scope(of_scope), strength(how_strong), from(said_by) {}

  MatchRule rule = MatchRule::none;
  // The highest confidence that evidence for a scope can give. A name that whence gave is no more certain than the node
  // was.
  origin::Confidence surest = origin::Confidence::matched;
  UnitIndex unit;    // set when the rule knows the operation
  ScopeIndex scope;  // set when it knows only the module
  double strength = 0;
  std::string_view from;  // the name or key that says it, in the file; may be empty
};

using EvidenceTable = IndexedVector<ForeignNode, std::vector<Evidence>>;

struct NodeMatch {
  std::vector<UnitIndex> units = {};  // ascending; several: fused. Empty: only the scope is known
  ScopeIndex scope;                   // lowest common one; none: unattributed
  origin::Confidence confidence = origin::Confidence::unattributed;
  MatchRule rule = MatchRule::none;
  bool shared = false;  // several units because it serves several, not because it replaced them
};

}  // namespace whence::match
