// Values that are, by their numbers, results of recorded operations: the node that makes one computes that operation,
// or ends in it. Equal numbers say so whatever the names, the bytes and the structure are.
#include "annotator/match/rules/rule.h"

namespace whence::match {

void equal_values(const RuleContext& context, EvidenceTable& table) {
  constexpr double strength = 3;
  const ForeignStructure& foreign = context.foreign.structure;
  for (const KnownValue& known : context.known_values) {
    for (const ForeignNode maker : foreign.makers(foreign.loose(known.foreign))) {
      table[maker].push_back({MatchRule::values, known.unit, {}, strength, foreign.values[known.foreign].name});
    }
  }
}

}  // namespace whence::match
