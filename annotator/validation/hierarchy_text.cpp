#include "annotator/validation/hierarchy_text.h"

#include <algorithm>
#include <map>
#include <utility>

#include "annotator/view/module_table.h"
#include "schema/module_path.h"

namespace whence::validation {

using origin::confidence_count;
using origin::name_of;
using text::Align;
using text::Cell;
using text::grouped;
using text::number_or_blank;
using text::Palette;
using text::share_text;
using text::Table;
using view::ModuleTable;

namespace {

constexpr std::size_t rows_shown = 40;
constexpr std::size_t parameters_shown = 20;
constexpr std::size_t classes_shown = 10;
constexpr std::size_t operators_shown = 4;

std::string_view style_of(Fate fate, const Palette& palette) {
  if (fate == Fate::arrived) return palette.green;
  return fate == Fate::unknown ? palette.red : palette.yellow;
}

std::string meaning_of(Fate fate) {
  switch (fate) {
    case Fate::arrived:
      return "have nodes of their own";
    case Fate::fused:
      return "in nodes that represent several";
    case Fate::folded:
      return "computed into constants";
    case Fate::eliminated:
      return "";
    case Fate::unknown:
      return "may be in nodes that state no operation";
  }
  return "";
}

// Returns "aten::dropout x3, aten::detach", most frequent first.
std::string operators_text(const std::map<std::string, std::int64_t>& operators) {
  std::vector<std::pair<std::string, std::int64_t>> sorted(operators.begin(), operators.end());
  std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (std::size_t i = 0; i < std::min(sorted.size(), operators_shown); ++i) {
    text += (i > 0 ? ", " : "") + sorted[i].first;
    if (sorted[i].second > 1) text += " x" + grouped(sorted[i].second);
  }
  if (sorted.size() > operators_shown) text += ", ... " + std::to_string(sorted.size() - operators_shown) + " more";
  return text;
}

using Reasons = std::map<std::pair<Fate, Elimination>, std::map<std::string, std::int64_t>>;

Reasons reasons_of(const Hierarchy& hierarchy) {
  Reasons reasons;
  for (const LostOperation& lost : hierarchy.lost) ++reasons[{lost.fate, lost.reason}][lost.op];
  return reasons;
}

std::string fates_text(const Hierarchy& hierarchy, const Palette& palette) {
  const ModuleHierarchy& all = hierarchy.modules.rows.front();
  const Reasons reasons = reasons_of(hierarchy);
  Table table(palette, {Align::left, Align::right, Align::right, Align::left, Align::left}, "  ");
  for (std::size_t i = 0; i < fate_count; ++i) {
    const Fate fate = static_cast<Fate>(i);
    const auto of_fate = [&](const auto& entry) { return entry.first.first == fate; };
    const auto first = std::ranges::find_if(reasons, of_fate);
    const bool one = fate != Fate::eliminated && first != reasons.end();
    table.row({Cell(std::string(name_of(fate)), all[fate] > 0 ? style_of(fate, palette) : palette.dim),
               grouped(all[fate]), share_text(all[fate], all.recorded()), all[fate] > 0 ? meaning_of(fate) : "",
               Cell(one ? operators_text(first->second) : "", palette.dim)});
    for (const auto& [key, operators] : reasons) {
      if (key.first != fate || fate != Fate::eliminated) continue;
      std::int64_t count = 0;
      for (const auto& [op, times] : operators) count += times;
      table.row(
          {"", grouped(count), "", std::string(text_of(key.second)), Cell(operators_text(operators), palette.dim)});
    }
  }
  return table.text();
}

void add_module(ModuleTable& table, const ModuleHierarchy& module, const Palette& palette) {
  std::vector<Cell> cells = {Cell(last_segment(module.type), palette.dim), number_or_blank(module.calls),
                             number_or_blank(module.nodes), number_or_blank(module.recorded())};
  for (std::size_t i = 0; i < fate_count; ++i) {
    const auto fate = static_cast<Fate>(i);
    cells.emplace_back(number_or_blank(module[fate]), style_of(fate, palette));
  }
  cells.emplace_back(number_or_blank(module.recorded_parameters()));
  cells.emplace_back(number_or_blank(module.kept_parameters()));
  cells.emplace_back(number_or_blank(module.merged_parameters()));
  cells.emplace_back(number_or_blank(module[Arrival::unused]));
  cells.emplace_back(number_or_blank(module[Arrival::missing]), palette.red);
  table.module(module.path, std::move(cells));
}

std::string modules_text(const Hierarchy& hierarchy, const ReportExtent& extent, const Palette& palette) {
  std::vector<ModuleTable::Column> columns = {{"type", Align::left}};
  for (const char* title : {"calls", "nodes", "operations"}) columns.emplace_back(title, Align::right);
  for (std::size_t i = 0; i < fate_count; ++i) columns.emplace_back(name_of(static_cast<Fate>(i)), Align::right);
  for (const char* title : {"parameters", "kept", "merged", "unused", "missing"})
    columns.emplace_back(title, Align::right);
  ModuleTable table(palette, columns, "  ");
  std::size_t shown = 0;
  std::int64_t omitted = 0, omitted_incomplete = 0;
  for (const ModuleHierarchy& module : hierarchy.modules.rows) {
    if (extent.all || (module.level <= extent.depth && shown < rows_shown)) {
      add_module(table, module, palette);
      ++shown;
    } else {
      ++omitted;
      omitted_incomplete += module.complete() ? 0 : 1;
    }
  }
  std::string text = table.text();
  if (omitted > 0) {
    text += "  and " + grouped(omitted) + " more modules, " + grouped(omitted_incomplete) +
            " of them incomplete: --all shows them\n";
  }
  return text;
}

}  // namespace

std::string naming_text(const NamingReport& naming, bool has_sidecar, const ReportExtent& extent,
                        const Palette& palette) {
  std::int64_t all = 0;
  for (const std::int64_t count : naming.counts) all += count;
  Table table(palette, {Align::left, Align::right, Align::right, Align::left}, "  ");
  for (std::size_t i = 0; i < naming_count; ++i) {
    const auto kind = static_cast<Naming>(i);
    std::string note;
    if (kind == Naming::hierarchy) note = grouped(naming.named_modules) + " modules are named";
    if (kind == Naming::names_only) note = "`whence annotate` turns them into origins";
    if (kind == Naming::classes && has_sidecar) note = grouped(naming.ambiguous) + " ambiguous";
    table.row({std::string(text_of(kind)), grouped(naming.counts[i]), share_text(naming.counts[i], all),
               Cell(naming.counts[i] > 0 ? note : "", palette.dim)});
  }
  std::string text = table.text();
  if (!has_sidecar || naming.ambiguous == 0) return text;
  Table classes(palette, {Align::left, Align::left}, "    ");
  std::size_t shown = 0;
  for (const ClassNode& node : naming.classes) {
    if (node.instances < 2 || (!extent.all && shown == classes_shown)) continue;
    classes.row({node.node, "one of " + grouped(node.instances) + " modules " + last_segment(node.type)});
    ++shown;
  }
  const std::int64_t left = naming.ambiguous - static_cast<std::int64_t>(shown);
  return text + classes.text() + (left > 0 ? "    and " + grouped(left) + " more: --all shows them\n" : "");
}

std::string hierarchy_text(const Hierarchy& hierarchy, const ReportExtent& extent, const Palette& palette) {
  if (hierarchy.modules.rows.empty()) return "";
  if (!hierarchy.belongs) {
    return "  the nodes of the file do not state which of the " + grouped(hierarchy.modules.rows.front().recorded()) +
           " recorded operations they represent; `whence annotate --sidecar` adds that\n";
  }
  return fates_text(hierarchy, palette) + "\n" + modules_text(hierarchy, extent, palette);
}

namespace {

using NameAndForm = std::pair<std::string, std::string>;

NameAndForm kind_of(const FoundParameter& parameter) { return {last_segment(parameter.name), parameter.form}; }

// Counts unused parameters by last name segment and form, for one line "*.num_batches_tracked": every BatchNorm has
// this buffer, and no export needs it.
std::map<NameAndForm, std::int64_t> unused_by_kind(const Hierarchy& hierarchy) {
  std::map<NameAndForm, std::int64_t> counts;
  for (const FoundParameter& parameter : hierarchy.parameters) {
    if (parameter.arrival == Arrival::unused) ++counts[kind_of(parameter)];
  }
  std::erase_if(counts, [](const auto& entry) { return entry.second < 2; });
  return counts;
}

}  // namespace

std::string parameters_text(const Hierarchy& hierarchy, const ReportExtent& extent, const Palette& palette) {
  Table counts(palette, {Align::left, Align::right}, "  "),
      rows(palette, {Align::left, Align::left, Align::left}, "    ");
  std::int64_t left = 0;
  std::size_t shown = 0;
  std::map<NameAndForm, std::int64_t> shared_lines;
  if (!extent.all) shared_lines = unused_by_kind(hierarchy);
  for (std::size_t i = 0; i < arrival_count; ++i) {
    const auto arrival = static_cast<Arrival>(i);
    const std::int64_t count = std::ranges::count(hierarchy.parameters, arrival, &FoundParameter::arrival);
    if (count == 0) continue;
    const std::string_view style = arrival == Arrival::missing ? palette.red
                                   : arrived(arrival)          ? palette.green
                                                               : palette.yellow;
    counts.row({Cell(std::string(text_of(arrival)), style), grouped(count)});
  }
  // Lists parameters that did not arrive, most serious first; then parameters under another name.
  for (std::size_t i = arrival_count; i-- > static_cast<std::size_t>(Arrival::content);) {
    for (const FoundParameter& parameter : hierarchy.parameters) {
      if (parameter.arrival != static_cast<Arrival>(i)) continue;
      const auto shared_line =
          parameter.arrival == Arrival::unused ? shared_lines.find(kind_of(parameter)) : shared_lines.end();
      const std::int64_t count_on_line = shared_line == shared_lines.end() ? 1 : std::exchange(shared_line->second, 0);
      if (count_on_line == 0) continue;  // already on a shared line
      if (!extent.all && shown == parameters_shown) {
        left += count_on_line;
        continue;
      }
      ++shown;
      if (count_on_line > 1) {
        rows.row({"*." + shared_line->first.first, Cell(parameter.form, palette.dim),
                  grouped(count_on_line) + " " + std::string(name_of(parameter.arrival))});
        continue;
      }
      const std::string as = parameter.initializer.empty() ? "" : " as " + parameter.initializer;
      rows.row({parameter.name, Cell(parameter.form, palette.dim), std::string(name_of(parameter.arrival)) + as});
    }
  }
  return counts.text() + rows.text() + (left > 0 ? "    and " + grouped(left) + " more: --all shows them\n" : "");
}

std::string baseline_text(const Validation& validation, const Palette& palette) {
  const Baseline& before = *validation.baseline;
  const origin::Counts& now = validation.coverage.all;
  Table table(palette, {Align::left, Align::right, Align::right, Align::right, Align::right}, "  ");
  table.header({"", "before", "", "after", ""});
  const auto row = [&](const std::string& what, std::int64_t was, std::int64_t is) {
    table.row({what, grouped(was), share_text(was, before.all.total()), grouped(is), share_text(is, now.total())});
  };
  table.row({"nodes", grouped(before.all.total()), "", grouped(now.total())});
  for (std::size_t i = 0; before.naming && i < naming_count; ++i) {
    row(std::string(text_of(static_cast<Naming>(i))), (*before.naming)[i], validation.naming.counts[i]);
  }
  for (std::size_t i = 0; i < confidence_count; ++i) {
    row(std::string(name_of(static_cast<origin::Confidence>(i))), before.all.by[i], now.by[i]);
  }
  row("covered", before.all.covered(), now.covered());
  return table.text();
}

}  // namespace whence::validation
