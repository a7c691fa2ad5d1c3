// The text report: the five confidences, tables by module and operator, missing modules and nodes, findings.
#include "annotator/validation/validation_text.h"

#include <algorithm>
#include <set>

#include "annotator/validation/problems.h"
#include "annotator/view/tree_text.h"
#include "schema/module_path.h"

namespace whence::validation {

using origin::Confidence;
using origin::confidence_count;
using origin::Counts;
using text::Align;
using text::Cell;
using text::grouped;
using text::Palette;
using text::Table;

namespace {

constexpr std::size_t modules_shown = 60;
constexpr std::size_t items_shown = 3;
constexpr std::size_t nodes_shown = 10;
constexpr std::size_t silent_shown = 30;

std::string_view style_of(Confidence confidence, const Palette& palette) {
  if (confidence == Confidence::unattributed) return palette.red;
  return confidence == Confidence::ancestor || confidence == Confidence::inferred ? palette.yellow : palette.green;
}

std::string title(const std::string& text, const Palette& palette) {
  return "\n" + std::string(palette.bold) + text + std::string(palette.reset) + "\n";
}

std::string more(std::size_t left) {
  return "    and " + grouped(static_cast<std::int64_t>(left)) + " more: --all shows them\n";
}

std::string summary_text(const Validation& validation, const Palette& palette) {
  const Counts& all = validation.coverage.all;
  Table table(palette, {Align::left, Align::right, Align::right}, "  ");
  for (std::size_t i = 0; i < confidence_count; ++i) {
    const auto confidence = static_cast<Confidence>(i);
    const std::string_view style = all[confidence] > 0 ? style_of(confidence, palette) : palette.dim;
    table.row({Cell(std::string(origin::name_of(confidence)), style), grouped(all[confidence]),
               all.total() == 0 ? "" : text::percent(all.share(all[confidence]))});
  }
  table.row({"covered", grouped(all.covered()), all.total() == 0 ? "" : text::percent(all.share(all.covered()))});
  return table.text();
}

using CountRows = std::vector<std::pair<std::string, Counts>>;

// Returns a table with a row for each module or operator type and a column for each confidence that occurs.
std::string counts_text(const std::string& what, const CountRows& rows, const Counts& all, const Palette& palette) {
  std::vector<Confidence> present;
  for (std::size_t i = 0; i < confidence_count; ++i) {
    if (all.by[i] > 0) present.push_back(static_cast<Confidence>(i));
  }
  std::vector<Align> columns(present.size() + 2, Align::right);
  columns.front() = Align::left;
  Table table(palette, columns, "  ");
  std::vector<std::string> titles = {what, "nodes"};
  for (const Confidence confidence : present) titles.emplace_back(origin::name_of(confidence));
  table.header(titles);
  for (const auto& [name, counts] : rows) {
    std::vector<Cell> cells = {name, grouped(counts.total())};
    for (const Confidence confidence : present) {
      cells.emplace_back(counts[confidence] == 0 ? "" : grouped(counts[confidence]), style_of(confidence, palette));
    }
    table.row(std::move(cells));
  }
  return table.text();
}

// Shows the first levels of modules, with a limited number of rows.
std::string modules_text(const Coverage& coverage, const ReportExtent& extent, const Palette& palette) {
  CountRows rows;
  for (const auto& [path, counts] : coverage.modules) {
    const auto level = path.empty() ? 0 : std::count(path.begin(), path.end(), '.') + 1;
    if (extent.all || (level <= extent.depth && rows.size() < modules_shown))
      rows.emplace_back(view::shown_path(path), counts);
  }
  const std::size_t left = coverage.modules.size() - rows.size();
  return counts_text("module", rows, coverage.all, palette) + (left > 0 ? more(left) : "");
}

std::string silent_text(const Validation& validation, const ReportExtent& extent, const Palette& palette) {
  const std::size_t limit = extent.all ? validation.silent.size() : silent_shown;
  Table table(palette, {Align::left, Align::left, Align::left, Align::left}, "  ");
  const std::size_t count = validation.silent.size();
  for (std::size_t i = 0; i < std::min(count, limit); ++i) {
    const SilentModule& module = validation.silent[i];
    std::string operations;
    for (const auto& [op, count] : module.operations) {
      operations += (operations.empty() ? "" : ", ") + op + (count > 1 ? " x" + std::to_string(count) : "");
    }
    table.row({view::shown_path(module.path), Cell(last_segment(module.type), palette.dim),
               std::string(text_of(module.silence)), Cell(operations, palette.dim)});
  }
  return table.text() + (count > limit ? more(count - limit) : "");
}

std::string unattributed_text(const Validation& validation, const ReportExtent& extent, const Palette& palette) {
  const std::size_t limit = extent.all ? validation.coverage.unattributed.size() : nodes_shown;
  const auto& nodes = validation.coverage.unattributed;
  Table table(palette, {Align::left, Align::left}, "  ");
  for (std::size_t i = 0; i < std::min(nodes.size(), limit); ++i) table.row({nodes[i].first, nodes[i].second});
  return table.text() + (nodes.size() > limit ? more(nodes.size() - limit) : "");
}

std::string finding_text(const Finding& finding, const ReportExtent& extent, const Palette& palette) {
  const std::size_t limit = extent.all ? finding.items.size() : items_shown;
  const std::string_view style = finding.allowed ? palette.dim : palette.red;
  std::string text = "  " + std::string(style) + finding.check->code + std::string(palette.reset) + " " +
                     grouped(static_cast<std::int64_t>(finding.items.size())) + " " + finding.check->summary +
                     (finding.allowed ? " (allowed)" : "") + "; try: " + finding.check->remedy + "\n";
  for (std::size_t i = 0; i < std::min(finding.items.size(), limit); ++i) {
    const FindingItem& item = finding.items[i];
    text += "    " + printable(item.subject) + (item.detail.empty() ? "" : ": " + printable(item.detail)) + "\n";
  }
  return text + (finding.items.size() > limit ? more(finding.items.size() - limit) : "");
}

}  // namespace

std::string to_text(const Validation& validation, const ReportExtent& extent, const Palette& palette) {
  const Coverage& coverage = validation.coverage;
  std::string text = std::string(palette.bold) + printable(validation.file) + std::string(palette.reset) + ": " +
                     grouped(validation.nodes) + (validation.nodes == 1 ? " node\n" : " nodes\n") +
                     summary_text(validation, palette);
  text += title("names", palette) + naming_text(validation.naming, validation.has_sidecar, extent, palette);
  if (validation.baseline) {
    text += title("against " + printable(validation.baseline->file), palette) + baseline_text(validation, palette);
  }
  if (!coverage.modules.empty()) {
    text += title("by module", palette) + modules_text(coverage, extent, palette);
  }
  if (!coverage.operators.empty()) {
    text += title("by operator", palette) + counts_text("operator", coverage.operators, coverage.all, palette);
  }
  if (validation.hierarchy) {
    text += title("recorded operations", palette) + hierarchy_text(*validation.hierarchy, extent, palette);
    if (!validation.hierarchy->parameters.empty()) {
      text += title("recorded parameters", palette) + parameters_text(*validation.hierarchy, extent, palette);
    }
  }
  if (!validation.silent.empty()) {
    text += title("modules without a node", palette) + silent_text(validation, extent, palette);
  }
  if (!coverage.unattributed.empty()) {
    text += title("nodes without a module", palette) + unattributed_text(validation, extent, palette);
  }
  text += title("checks", palette);
  for (const Finding& finding : validation.findings) text += finding_text(finding, extent, palette);
  for (const Shortfall& shortfall : validation.shortfalls) {
    const std::string_view style = shortfall.allowed ? palette.dim : palette.red;
    text += "  " + std::string(style) + shortfall.rule->code + std::string(palette.reset) + " " +
            printable(shortfall.message) +
            (shortfall.allowed ? " (allowed)" : std::string("; try: ") + shortfall.rule->remedy) + "\n";
  }
  // Count each requested gate as a check.
  std::set<const Rule*> failed_gates;
  for (const Shortfall& shortfall : validation.shortfalls) failed_gates.insert(shortfall.rule);
  const std::size_t checks = validation.checks.size() + validation.gates.size();
  const std::size_t passed = checks - validation.findings.size() - failed_gates.size();
  return text + "  " + std::to_string(passed) + " of " + std::to_string(checks) + " checks found nothing\n";
}

}  // namespace whence::validation
