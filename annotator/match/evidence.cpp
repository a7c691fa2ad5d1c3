#include "annotator/match/evidence.h"

#include <array>

namespace whence::match {
namespace {

struct RuleText {
  MatchRule rule;
  std::string_view name, sentence;
};

constexpr std::array texts = {
    RuleText{MatchRule::none, "none", "no rule found its module"},
    RuleText{MatchRule::carried, "carried", "its metadata names this module"},
    RuleText{MatchRule::tokens, "tokens",
             "the name that annotate --carry wrote into its doc_string contains this module"},
    RuleText{MatchRule::kept_values, "kept_values", "its result has the name that it had in the tool's input"},
    RuleText{MatchRule::values, "values", "its result has the numbers that an operation of this module returned"},
    RuleText{MatchRule::names, "names", "its name, or the name of its result, contains this module"},
    RuleText{MatchRule::initializers, "initializers", "it reads parameters of this module, known by name"},
    RuleText{MatchRule::digests, "digests", "it reads parameters of this module, known by their bytes"},
    RuleText{MatchRule::sketches, "sketches",
             "it reads parameters of this module, known by their elements although a tool changed the bytes"},
    RuleText{MatchRule::shapes, "shapes", "only parameters of this module have the sizes of its weights"},
    RuleText{MatchRule::fx_names, "fx_names", "it has the name that torch.export gives to the operation"},
    RuleText{MatchRule::structure, "structure",
             "it corresponds to a node that whence itself would export for this module"},
    RuleText{MatchRule::cone, "cone", "it replaced several operations: everything between its inputs and results"},
    RuleText{MatchRule::layout, "layout", "the recorded program rearranges this value at the same point"},
    RuleText{MatchRule::inserted, "inserted", "a tool inserted it for operators of this module"},
    RuleText{MatchRule::dataflow, "dataflow", "it is between nodes of this module, or serves them"},
};

// Returns true if each rule has its row.
consteval bool one_row_a_rule() {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (static_cast<std::size_t>(texts[i].rule) != i) return false;
  }
  return texts.size() == static_cast<std::size_t>(MatchRule::dataflow) + 1;
}
static_assert(one_row_a_rule(), "each MatchRule has a row, in the order of the enum; dataflow is the last");

}  // namespace

std::string_view name_of(MatchRule rule) { return texts[static_cast<std::size_t>(rule)].name; }

std::string_view sentence_of(std::string_view rule) {
  for (const RuleText& text : texts) {
    if (text.name == rule) return text.sentence;
  }
  return {};
}

}  // namespace whence::match
