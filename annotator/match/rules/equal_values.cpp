// Values with the numbers of a recorded operation's result: the node that computes the value represents that operation,
// or several that end in it. This evidence does not depend on names, bytes or structure.
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
