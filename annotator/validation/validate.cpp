#include "annotator/validation/validate.h"

#include <algorithm>

#include "annotator/functions/flat_summary.h"
#include "annotator/text/patterns.h"
#include "annotator/validation/attested.h"
#include "annotator/validation/tool_edit.h"
#include "schema/files/files.h"

namespace whence::validation {

using onnx_file::OnnxSummary;

namespace {

// Returns true if the rule's code or name matches one of the patterns (text/patterns.h).
bool matches_rule(const Rule& rule, const text::Patterns& names) {
  return names.match(rule.code) || names.match(rule.name);
}

// `findings`: nullopt if the shortfall is not a number, so that no tolerance applies.
bool is_allowed(const Rule& rule, std::optional<std::int64_t> findings, std::int64_t nodes,
                const ValidateOptions& options) {
  return matches_rule(rule, text::Patterns::of_names(options.allowed)) ||
         (findings && std::ranges::any_of(options.tolerances, [&](const Tolerance& tolerance) {
            return tolerance.covers(rule, *findings, nodes);
          }));
}

void refuse_unknown_code(const std::string& word) {
  const text::Patterns names = text::Patterns::of_names({word}, "re:V1..");
  if (std::ranges::any_of(all_rules(), [&](const Rule* rule) { return matches_rule(*rule, names); })) return;
  throw Error(Code::usage, "there is no check '" + word + "'",
              "use a code from " + std::string(all_rules().front()->code) + " to " + all_rules().back()->code +
                  "; `whence validate --help` lists them",
              {.stage = "command line"});
}

void refuse_unknown_codes(const ValidateOptions& options) {
  for (const std::string& word : options.allowed) refuse_unknown_code(word);
  for (const Tolerance& tolerance : options.tolerances) {
    if (!tolerance.rule.empty()) refuse_unknown_code(tolerance.rule);
  }
}

std::vector<Finding> findings_of(const CheckContext& context, const ValidateOptions& options,
                                 const std::vector<const Check*>& checks, std::int64_t nodes) {
  std::vector<Finding> findings;
  for (const Check* check : checks) {
    std::vector<FindingItem> items = check->run(context);
    if (items.empty()) continue;
    const bool allowed = is_allowed(*check, static_cast<std::int64_t>(items.size()), nodes, options);
    findings.push_back({check, std::move(items), allowed});
  }
  return findings;
}

}  // namespace

bool Validation::clean() const {
  return std::ranges::all_of(shortfalls, [](const Shortfall& shortfall) { return shortfall.allowed; }) &&
         std::ranges::all_of(findings, [](const Finding& finding) { return finding.allowed; });
}

Result<Validation> validate_file(const std::string& path, const Program* program, const ValidateOptions& options) {
  return guarded([&] {
    refuse_unknown_codes(options);
    Result<OnnxSummary> model = onnx_file::read_onnx_summary(path);
    if (!model) throw Error(model.diagnostics());
    std::optional<metadata::Recorded> recorded;
    if (program != nullptr && metadata::belongs_to(*model, *program)) recorded.emplace(*program);
    const metadata::Recorded* const known = recorded ? &*recorded : nullptr;
    // Checks examine the file as stored; coverage counts nodes after inlining function calls. If a call does not fit
    // its function, the stored file is used for both, and a check reports the call.
    std::optional<OnnxSummary> flat;
    if (functions::has_cut_functions(*model)) {
      if (Result<OnnxSummary> read = functions::read_flat_summary(path)) flat = std::move(*read);
    }
    const OnnxSummary& shown = flat ? *flat : *model;
    const CheckContext context{shown, onnx_file::all_nodes(shown.graph), program, known};
    std::optional<OnnxSummary> before;
    std::optional<ToolEdit> edit;
    if (!options.before.empty()) {
      before = value_of(functions::read_flat_summary(options.before));
      edit = tool_edit(*before, shown);
    }
    const CheckContext as_stored{
        *model, onnx_file::all_nodes(model->graph), program, known, edit ? &*edit : nullptr, external_tensors(*model)};

    Validation result;
    result.file = base_name(path);
    result.nodes = static_cast<std::int64_t>(context.nodes.size());
    result.coverage = coverage_of(context);
    result.has_sidecar = program != nullptr;
    result.silent = modules_without_node(context);
    std::copy_if(all_checks().begin(), all_checks().end(), std::back_inserter(result.checks),
                 [&](const Check* check) { return (options.full || !check->full) && (edit || !check->compares); });
    result.naming = naming_of(context);
    if (program != nullptr) result.hierarchy = hierarchy_of(context, result.coverage, path);
    if (!options.gates.baseline.empty()) result.baseline = read_baseline(options.gates.baseline, program);
    if (!options.gates.minima.empty()) result.gates.push_back(&threshold_rule);
    if (!options.gates.required.empty()) result.gates.push_back(&required_rule);
    if (result.baseline) result.gates.push_back(&baseline_rule);
    result.findings = findings_of(as_stored, options, result.checks, result.nodes);
    result.shortfalls =
        shortfalls_of(result.coverage, result.silent, options.gates, result.baseline ? &*result.baseline : nullptr);
    if (!options.gates.attested.empty()) {
      result.gates.push_back(&attested_rule);
      std::ranges::copy(attested_shortfalls(path, *model, options.gates.attested),
                        std::back_inserter(result.shortfalls));
    }
    for (Shortfall& each : result.shortfalls) each.allowed = is_allowed(*each.rule, each.nodes, result.nodes, options);
    return result;
  });
}

}  // namespace whence::validation
