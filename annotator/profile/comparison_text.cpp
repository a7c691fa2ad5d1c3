// Prints the comparison of two profiles as text and as JSON.
#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "annotator/profile/amount_text.h"
#include "annotator/profile/comparison.h"
#include "annotator/view/module_table.h"
#include "schema/json_text.h"
#include "schema/module_path.h"

namespace whence::profile {

using text::Align;
using text::Cell;
using text::Palette;

namespace {

// Returns "1.234", or "1.234-2.345" for a module with a range.
std::string range_text(const ModuleAmount& amount, const ModuleProfile& profile) {
  const std::string least = amount_text(amount.total, profile.runs, profile.unit);
  if (amount.at_most == amount.total) return least;
  return least + "-" + amount_text(amount.at_most, profile.runs, profile.unit);
}

double per_run(std::int64_t amount, const ModuleProfile& profile) {
  return static_cast<double>(amount) / static_cast<double>(profile.runs);
}

// Returns the ratio of the second to the first, "x 0.45"; "" if the first is 0.
std::string ratio_text(std::int64_t first, std::int64_t second, const Comparison& comparison) {
  if (first == 0) return "";
  const double ratio = per_run(second, comparison.second) / per_run(first, comparison.first);
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "x %.2f", ratio);
  return text.data();
}

std::string ratio_text(const ComparedModule& module, const Comparison& comparison) {
  const bool numbers = module.first.at_most == module.first.total && module.second.at_most == module.second.total;
  return numbers ? ratio_text(module.first.total, module.second.total, comparison) : "";
}

std::string_view style_of(Change change, const Palette& palette) {
  return change == Change::faster ? palette.green : change == Change::slower ? palette.red : palette.dim;
}

std::string title_of(const ModuleProfile& profile) {
  return std::string(profile.source) + " " + std::string(shown_unit(profile.unit));
}

using Json = nlohmann::ordered_json;

Json side_json(const ModuleProfile& profile) {
  return {{"profile", profile.profile},
          {"source", profile.source},
          {"runs", profile.runs},
          {"warmup_runs", profile.warmup_runs},
          {"averaged", profile.averaged},
          {"operator_time", per_run(profile.amount, profile)},
          {"unattributed", per_run(profile.unattributed, profile)}};
}

Json amount_json(const ModuleAmount& amount, const ModuleProfile& profile) {
  return {{"own", per_run(amount.own, profile)},
          {"total", per_run(amount.total, profile)},
          {"at_most", per_run(amount.at_most, profile)}};
}

}  // namespace

std::string to_text(const Comparison& comparison, int depth, const Palette& palette) {
  const ModuleProfile &first = comparison.first, &second = comparison.second;
  view::ModuleTable table(palette, {{"type", Align::left},
                                    {"A: " + title_of(first), Align::right},
                                    {"B: " + title_of(second), Align::right},
                                    {"B / A", Align::right},
                                    {"B is", Align::left}});
  for (const ComparedModule& module : comparison.modules) {
    const bool empty = module.first.at_most == 0 && module.second.at_most == 0;
    if (module.level > depth || (empty && !module.path.empty())) continue;
    table.module(module.path, {Cell(last_segment(module.type), palette.dim), range_text(module.first, first),
                               range_text(module.second, second), ratio_text(module, comparison),
                               Cell(std::string(name_of(module.change)), style_of(module.change, palette))});
  }
  if (first.unattributed > 0 || second.unattributed > 0) {
    table.apart("(no module known)",
                {"", amount_text(first.unattributed, first.runs, first.unit),
                 amount_text(second.unattributed, second.runs, second.unit)},
                palette.yellow);
  }
  std::string text = std::string(palette.bold) + printable(first.file) + std::string(palette.reset) + ": A is " +
                     printable(first.profile) + ", B is " + printable(second.profile) + "; a run takes " +
                     amount_text(first.amount, first.runs, first.unit) + " and " +
                     amount_text(second.amount, second.runs, second.unit) + " " + std::string(shown_unit(first.unit)) +
                     " in operators, " + ratio_text(first.amount, second.amount, comparison) + "\n\n" + table.text();
  if (first.has_bounds() || second.has_bounds()) {
    text +=
        "\nRange: the runtime fused nodes of this and other modules; the least and the most that this module may have "
        "taken.\n";
  }
  const bool unclear = std::ranges::any_of(
      comparison.modules, [](const ComparedModule& module) { return module.change == Change::unclear; });
  if (unclear) {
    text += "\nUnclear: time that is shared or has no known module could make either profile the faster one.\n";
  }
  return text;
}

std::string to_json(const Comparison& comparison) {
  Json modules = Json::array();
  for (const ComparedModule& module : comparison.modules) {
    modules.push_back({{"path", module.path},
                       {"type", or_null(module.type)},
                       {"first", amount_json(module.first, comparison.first)},
                       {"second", amount_json(module.second, comparison.second)},
                       {"change", name_of(module.change)}});
  }
  const Json json = {{"file", comparison.first.file},
                     {"unit", name_of(comparison.first.unit)},
                     {"first", side_json(comparison.first)},
                     {"second", side_json(comparison.second)},
                     {"modules", std::move(modules)}};
  return json_text(json, 2) + "\n";
}

}  // namespace whence::profile
