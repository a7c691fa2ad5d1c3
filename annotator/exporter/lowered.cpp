#include "annotator/exporter/lowered.h"

#include <unordered_map>
#include <utility>

#include "annotator/convert/op_table.h"
#include "annotator/lower/pipeline.h"
#include "annotator/program/program_facts.h"

namespace whence::exporter {

namespace {

// The number of operations per decomposed operator that triggers a warning: a runtime takes as long for them as for a
// model.
constexpr std::size_t long_form = 100;

// Warns of decomposed operators that become many operations: an LSTM of 64 steps becomes 2,000 operations instead of
// one node.
void warn_of_long_forms(const Program& program, const Program& lowered, const lower::Composites& composites,
                        const Refused& refused, Diagnostics& notes) {
  std::unordered_map<std::int32_t, std::size_t> operations_of;  // indexed by number of the recorded operation
  for (const Node* node : operations(lowered)) ++operations_of[node->origin.op];
  std::map<std::string, std::pair<const Node*, std::size_t>> longest;
  for (const Node* node : operations(program)) {
    const std::size_t count = operations_of[node->origin.op];
    if (count < long_form || composites.decomposed_by(program, *node) == nullptr) continue;
    auto& [call, operations] = longest[qualified(*node)];
    if (count > operations) call = node, operations = count;
  }
  for (const auto& [key, call] : longest) {
    const auto refusal = refused.find(key);
    const bool has_converter = refusal != refused.end();
    notes.push_back(warning(has_converter ? refusal->second.code : Code::no_converter,
                            (has_converter ? refusal->second.message + "; it" : key) +
                                " is written as its decomposition of " + std::to_string(call.second) + " operations",
                            has_converter ? refusal->second.remedy : "pass a converter with --converters FILE",
                            program::place_of(program, *call.first, "convert")));
  }
}

bool is_kept_undecomposed(const ExportOptions& options, const std::string& key) {
  return program::named_in(options.custom_operators, key) != nullptr ||
         program::named_in(options.kept_operators, key) != nullptr ||
         options.passed_through.contains(key.substr(0, key.find(':')));
}

// Selects the operators that the lowered program has no converter for, unless the user keeps them. An operator whose
// decomposition contains an operator without a converter is not selected again. Returns true if the selection changed.
bool select_composites(lower::Composites& composites, std::set<std::string>& failed, const Program& program,
                       const Program& lowered, const ExportOptions& options) {
  std::map<std::int32_t, std::set<std::string>> unconvertible;  // indexed by number of the recorded operation
  for (const Node* node : operations(lowered)) {
    const std::string key = qualified(*node);
    const bool has_converter = !node->blocks.empty() || convert::OpTable::get().find(key) != nullptr;
    if (!has_converter && !composites.keys.contains(key)) unconvertible[node->origin.op].insert(key);
  }
  std::set<std::string> keys = composites.keys;
  for (const Node* node : operations(program)) {
    const auto remaining = unconvertible.find(node->origin.op);
    if (remaining == unconvertible.end()) continue;
    const std::string* opened = composites.decomposed_by(program, *node);
    if (opened != nullptr) failed.insert(*opened);
    for (const std::string& key : remaining->second) {
      if (opened == nullptr && !is_kept_undecomposed(options, key)) keys.insert(key);
    }
  }
  for (const std::string& key : failed) keys.erase(key);
  return std::exchange(composites.keys, keys) != keys;
}

}  // namespace

Lowered lower_for_conversion(const Program& program, const ExportOptions& options, const Refused& refused) {
  std::set<std::string> untouched = options.custom_operators, failed;
  untouched.insert(options.kept_operators.begin(), options.kept_operators.end());
  lower::Composites composites{options.trace_composite};
  for (const auto& [key, refusal] : refused) composites.keys.insert(key);
  Lowered lowered;
  do {
    lowered = {};
    composites.refused.clear();
    lowered.program = lower::lower(program, lowered.failures, lowered.notes, untouched, options.fold, &composites);
  } while (options.trace_composite && select_composites(composites, failed, program, lowered.program, options));
  for (Failure& each : composites.refused) {
    if (!options.unsupported_as_domain) {
      lowered.failures.push_back(std::move(each));
      continue;
    }
    each.diagnostic.severity = Severity::warning;
    lowered.notes.push_back(std::move(each.diagnostic));
  }
  if (!composites.keys.empty()) warn_of_long_forms(program, lowered.program, composites, refused, lowered.notes);
  return lowered;
}

}  // namespace whence::exporter
