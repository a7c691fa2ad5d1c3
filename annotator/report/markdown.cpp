// Writes a report as Markdown for pull requests on GitHub and GitLab. Names are in code spans, so that markup and
// @mentions in a name have no effect.
#include <algorithm>

#include "annotator/report/report.h"
#include "annotator/text/table.h"
#include "annotator/view/operation_count.h"
#include "annotator/view/tree_text.h"
#include "schema/module_path.h"

namespace whence::report {

using origin::confidence_count;
using origin::name_of;
using text::grouped;
using validation::fate_count;
using validation::name_of;
using validation::naming_count;
using validation::Validation;
using view::operation_formulas;

namespace {

constexpr int levels_shown = 2;
constexpr std::size_t modules_shown = 60;
constexpr std::size_t operators_shown = 15;
constexpr std::size_t subjects_shown = 5;

// Returns a code span with a fence longer than any run of backticks inside. Escapes '|', which would end the table
// cell.
std::string code(std::string_view text) {
  const std::string clean = printable(text);
  std::size_t longest = 0, run = 0;
  std::string escaped;
  for (const char c : clean) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  if (escaped.empty()) return "";
  const std::string fence(longest + 1, '`');
  const std::string blank = longest > 0 || escaped.front() == ' ' ? " " : "";
  return fence + blank + escaped + blank + fence;
}

std::string share(const origin::Counts& counts, std::int64_t part) {
  return counts.total() == 0 ? "" : text::percent(counts.share(part));
}

std::string summary(const Report& report) {
  const origin::Counts& all = report.validation.coverage.all;
  std::string text = "| confidence | nodes | share |\n|---|--:|--:|\n";
  for (std::size_t i = 0; i < confidence_count; ++i) {
    const auto confidence = static_cast<origin::Confidence>(i);
    text += "| " + std::string(name_of(confidence)) + " | " + grouped(all[confidence]) + " | " +
            share(all, all[confidence]) + " |\n";
  }
  return text + "| **covered** | " + grouped(all.covered()) + " | " + share(all, all.covered()) + " |\n";
}

// Returns the number of operations, with "≥" if some nodes could not be counted.
std::string operations_text(const Report& report, const ModuleFigures& figures) {
  if (figures.unsized > 0) return std::string(unsized_operations(report));
  if (figures.uncounted > 0 && figures.operations == 0) return "unknown";
  return (figures.uncounted > 0 ? "≥ " : "") + grouped(figures.operations);
}

std::string module_line(const Report& report, std::size_t row) {
  const view::ModuleRow& module = report.graph.tree.rows[row];
  const ModuleFigures& figures = report.figures[row];
  return "| " + code(view::shown_path(module.path)) + " | " + code(last_segment(module.type)) + " | " +
         grouped(module.total) + " | " + share(figures.coverage, figures.coverage.covered()) + " | " +
         grouped(module.parameters) + " | " + operations_text(report, figures) + " |\n";
}

std::string modules(const Report& report) {
  std::string text = "| module | type | nodes | covered | parameters | FLOPs |\n|---|---|--:|--:|--:|--:|\n";
  std::size_t shown = 0, left = 0;
  for (std::size_t row = 0; row < report.graph.tree.rows.size(); ++row) {
    const view::ModuleRow& module = report.graph.tree.rows[row];
    if (module.level > levels_shown || module.total == 0) continue;
    if (shown++ < modules_shown) {
      text += module_line(report, row);
    } else {
      ++left;
    }
  }
  if (left > 0) text += "\nand " + grouped(static_cast<std::int64_t>(left)) + " more modules\n";
  return text + "\nFLOPs: " + std::string(operation_formulas) + ".\n";
}

std::string operators(const Report& report) {
  auto rows = report.validation.coverage.operators;
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.total() > b.second.total(); });
  std::string text = "| operator | nodes | covered |\n|---|--:|--:|\n";
  for (std::size_t i = 0; i < std::min(rows.size(), operators_shown); ++i) {
    text += "| " + code(rows[i].first) + " | " + grouped(rows[i].second.total()) + " | " +
            share(rows[i].second, rows[i].second.covered()) + " |\n";
  }
  if (rows.size() > operators_shown) {
    text += "\nand " + grouped(static_cast<std::int64_t>(rows.size() - operators_shown)) + " more operators\n";
  }
  return text;
}

std::string finding_line(const validation::Finding& finding) {
  std::string text = "| " + std::string(finding.check->code) + " | " + finding.check->level() + " | " +
                     finding.check->summary + " | " + grouped(static_cast<std::int64_t>(finding.items.size())) + " | ";
  for (std::size_t i = 0; i < std::min(finding.items.size(), subjects_shown); ++i) {
    text += (i > 0 ? ", " : "") + code(finding.items[i].subject);
  }
  if (finding.items.size() > subjects_shown) text += ", ...";
  return text + " | " + code(finding.check->remedy) + " |\n";
}

std::string findings(const Validation& validation) {
  if (validation.findings.empty()) {
    return "none; " + grouped(static_cast<std::int64_t>(validation.checks.size())) + " checks ran\n";
  }
  std::string text = "| code | severity | what | places | where | remedy |\n|---|---|---|--:|---|---|\n";
  for (const validation::Finding& finding : validation.findings) text += finding_line(finding);
  return text;
}

std::string silent(const Validation& validation) {
  if (validation.silent.empty()) return "";
  std::map<std::string_view, std::int64_t> counts;
  for (const validation::ModuleWithoutNode& module : validation.silent) ++counts[validation::text_of(module.reason)];
  std::string text = "\n### Modules without a node\n\n| why | modules |\n|---|--:|\n";
  for (const auto& [why, count] : counts) text += "| " + std::string(why) + " | " + grouped(count) + " |\n";
  return text;
}

std::string repeated(std::string_view text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

// Writes the fates of recorded operations and parameters, for modules that lost some.
std::string hierarchy(const Validation& validation) {
  if (!validation.hierarchy || !validation.hierarchy->belongs || validation.hierarchy->modules.rows.empty()) return "";
  const validation::Hierarchy& all = *validation.hierarchy;
  std::string text = "\n### Recorded operations\n\n| module | calls | operations |";
  for (std::size_t i = 0; i < fate_count; ++i)
    text += " " + std::string(name_of(static_cast<validation::Fate>(i))) + " |";
  text += " parameters | kept | merged | unused | missing |\n|---" + repeated("|--:", fate_count + 7) + "|\n";
  std::size_t shown = 0, left = 0;
  for (const validation::ModuleHierarchy& module : all.modules.rows) {
    if (module.level > levels_shown || (module.complete() && module.calls > 0 && module.level > 0)) continue;
    if (shown++ >= modules_shown) {
      ++left;
      continue;
    }
    text +=
        "| " + code(view::shown_path(module.path)) + " | " + grouped(module.calls) + " | " + grouped(module.recorded());
    for (const std::int64_t count : module.operations) text += " | " + grouped(count);
    for (const std::int64_t count : {module.recorded_parameters(), module.kept_parameters(), module.merged_parameters(),
                                     module[validation::Arrival::unused], module[validation::Arrival::missing]}) {
      text += " | " + grouped(count);
    }
    text += " |\n";
  }
  if (left > 0) text += "\nand " + grouped(static_cast<std::int64_t>(left)) + " more modules that lost something\n";
  return text +
         "\nComplete modules are left out. Merged parameters were combined with others, like a BatchNorm's "
         "with a Conv's.\n";
}

std::string naming(const Validation& validation) {
  std::string text = "| naming | nodes |\n|---|--:|\n";
  for (std::size_t i = 0; i < naming_count; ++i) {
    text += "| " + std::string(validation::text_of(static_cast<validation::Naming>(i))) + " | " +
            grouped(validation.naming.counts[i]) + " |\n";
  }
  return text;
}

}  // namespace

std::string to_markdown(const Report& report) {
  return "## " + code(report.file) + "\n\n" + grouped(report.validation.nodes) +
         (report.validation.nodes == 1 ? " node" : " nodes") + "\n\n" + summary(report) + "\n" +
         naming(report.validation) + "\n### Findings\n\n" + findings(report.validation) + "\n### Modules\n\n" +
         modules(report) + "\n### Operators\n\n" + operators(report) + hierarchy(report.validation) +
         silent(report.validation);
}

}  // namespace whence::report
