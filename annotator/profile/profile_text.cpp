// Prints a profile by module: the tree with amounts, repeated calls, and the unattributed amount.
#include <algorithm>
#include <map>

#include "annotator/profile/amount_text.h"
#include "annotator/profile/module_profile.h"
#include "annotator/view/tree_text.h"
#include "schema/module_path.h"

namespace whence::profile {

using text::Align;
using text::Cell;
using text::grouped;
using text::Palette;

namespace {

constexpr std::size_t operators_shown = 8;

std::string per_run_text(std::int64_t amount, const ModuleProfile& profile) {
  return amount_text(amount, profile.runs, profile.unit);
}

// Returns false for bytes and nodes, which do not depend on the number of runs.
bool is_per_run(const ModuleProfile& profile) { return profile.unit != Unit::bytes && profile.unit != Unit::nodes; }

// Returns "CPU 80.0 %, CUDA 20.0 %", sorted by name.
std::string providers_text(const std::map<std::string, std::int64_t>& amounts, std::int64_t whole) {
  constexpr std::string_view suffix = "ExecutionProvider";
  std::string text;
  for (const auto& [provider, amount] : amounts) {
    std::string_view name = provider;
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
    text += (text.empty() ? "" : ", ") + std::string(name) + " " + text::share_text(amount, whole);
  }
  return text;
}

// Returns a bar of '#', 20 for the total.
std::string bar(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? "" : std::string(static_cast<std::size_t>((part * 20 + whole - 1) / whole), '#');
}

// The optional columns of modules; a column without information is left out.
struct Columns {
  Columns(const ModuleProfile& profile, const TextOptions& options)
      : at_most(profile.has_bounds()),
        wall(profile.overlaps()),
        providers(profile.has_providers()),
        memory(options.memory &&
               std::ranges::any_of(profile.amounts, [](const ModuleAmount& each) { return each.memory.has_value(); })) {
  }

  bool at_most, wall, providers, memory;
};

std::vector<view::ModuleTable::Column> titles(const ModuleProfile& profile, const Columns& columns) {
  const std::string unit(shown_unit(profile.unit));
  std::vector<view::ModuleTable::Column> all = {
      {"type", Align::left}, {is_per_run(profile) ? unit + " a run" : unit, Align::right}, {"share", Align::right}};
  if (columns.at_most) all.emplace_back("at most", Align::right);
  if (columns.wall) all.emplace_back("wall " + unit, Align::right);
  all.emplace_back("own " + unit, Align::right);
  if (columns.memory) {
    for (const char* title : {"parameter bytes", "output bytes", "peak bytes"}) all.emplace_back(title, Align::right);
  }
  all.emplace_back("", Align::left);
  if (columns.providers) all.emplace_back("provider", Align::left);
  return all;
}

std::vector<Cell> module_cells(const ModuleProfile& profile, std::size_t row, const Columns& columns,
                               const Palette& palette) {
  const ModuleAmount& amount = profile.amounts[row];
  std::vector<Cell> cells = {Cell(last_segment(profile.tree.rows[row].type), palette.dim),
                             per_run_text(amount.total, profile), text::share_text(amount.total, profile.amount)};
  if (columns.at_most) cells.emplace_back(amount.at_most > amount.total ? per_run_text(amount.at_most, profile) : "");
  if (columns.wall) cells.emplace_back(per_run_text(amount.wall, profile));
  cells.emplace_back(amount.own == 0 ? "" : per_run_text(amount.own, profile));
  if (columns.memory) {
    const LayerMemory memory = amount.memory.value_or(LayerMemory{});
    cells.emplace_back(text::number_or_blank(memory.parameters));
    cells.emplace_back(text::number_or_blank(memory.outputs));
    cells.emplace_back(text::number_or_blank(memory.peak.value_or(0)));
  }
  cells.emplace_back(bar(amount.total, profile.amount), palette.green);
  if (columns.providers) cells.emplace_back(providers_text(amount.providers, amount.total), palette.dim);
  return cells;
}

std::string modules_text(const ModuleProfile& profile, const TextOptions& options, const Palette& palette) {
  const Columns columns(profile, options);
  view::ModuleTable table(palette, titles(profile, columns));
  const std::size_t before_own = 3 + std::size_t{columns.at_most} + std::size_t{columns.wall};
  for (std::size_t i = 0; i < profile.tree.rows.size(); ++i) {
    const view::ModuleRow& row = profile.tree.rows[i];
    if (row.level > options.depth || (profile.amounts[i].at_most == 0 && i != 0)) continue;
    table.module(row.path, module_cells(profile, i, columns, palette));
    const auto calls = profile.calls_of(i);
    if (calls.size() < 2) continue;
    for (const CallAmount& call : calls) {
      std::vector<Cell> cells(before_own, "");
      cells.emplace_back(per_run_text(call.amount, profile));
      table.below("call " + call.call, std::move(cells), palette.dim);
    }
  }
  if (profile.unattributed > 0) {
    std::vector<Cell> cells = {"", per_run_text(profile.unattributed, profile),
                               text::share_text(profile.unattributed, profile.amount)};
    cells.resize(before_own + 1 + (columns.memory ? 3 : 0), "");
    cells.emplace_back(bar(profile.unattributed, profile.amount), palette.yellow);
    table.apart("(no module known)", std::move(cells), palette.yellow);
  }
  return table.text();
}

std::string operators_text(const ModuleProfile& profile, const Palette& palette) {
  std::vector<const ProfiledLayer*> layers;
  for (const ProfiledLayer& layer : profile.layers) layers.push_back(&layer);
  std::ranges::stable_sort(layers, std::greater{},
                           [](const ProfiledLayer* layer) { return layer->runtime_layer.amount; });
  const std::string unit(shown_unit(profile.unit));
  text::Table table(palette, {Align::right, Align::right, Align::left, Align::left, Align::left});
  table.header({is_per_run(profile) ? unit + " a run" : unit, "share", "operator", "module", "node"});
  for (std::size_t i = 0; i < std::min(layers.size(), operators_shown); ++i) {
    const ProfiledLayer& layer = *layers[i];
    const auto row = layer.modules.row;
    table.row({per_run_text(layer.runtime_layer.amount, profile),
               text::share_text(layer.runtime_layer.amount, profile.amount), layer.runtime_layer.op_type,
               row ? Cell(view::shown_path(profile.tree.rows[*row].path)) : Cell("not known", palette.yellow),
               Cell(layer.runtime_layer.name, palette.dim)});
  }
  return table.text();
}

std::string counted(std::int64_t number, const std::string& what) {
  return grouped(number) + " " + what + (number == 1 ? "" : "s");
}

// Returns "3 runs after 1 warm-up run, 30.201 ms each, 26.101 ms of it in 73 operators".
std::string summary_of(const ModuleProfile& profile) {
  const std::string unit = " " + std::string(shown_unit(profile.unit));
  const std::string in_layers = " in " + grouped(static_cast<std::int64_t>(profile.layers.size())) + " operators";
  const std::string amount = per_run_text(profile.amount, profile) + unit;
  if (!is_per_run(profile)) return amount + in_layers;
  std::string runs = profile.averaged ? "an average run" : counted(profile.runs, "run");
  if (profile.warmup_runs > 0) runs += " after " + counted(profile.warmup_runs, "warm-up run");
  if (!profile.run_amount) return runs + ", " + amount + (profile.averaged ? "" : " each") + in_layers;
  return runs + ", " + per_run_text(*profile.run_amount, profile) + unit + " each, " + amount + " of it" + in_layers;
}

std::string merged_text(const ModuleProfile& profile) {
  const bool one = profile.merged == 1, fused = profile.source == "onnxruntime";
  const std::string what = fused ? (one ? " was fused and kept a node's name" : " were fused and kept a node's name")
                                 : (one ? " has" : " have") + std::string(" a name that begins with a node's name");
  return counted(profile.merged, "operator") + what + ": all of " + (one ? "its" : "their") +
         " time is counted for that node's module.";
}

}  // namespace

std::string to_text(const ModuleProfile& profile, const TextOptions& options, const Palette& palette) {
  std::string text = std::string(palette.bold) + printable(profile.file) + std::string(palette.reset) + ": " +
                     summary_of(profile) + "\n\n";
  text += modules_text(profile, options, palette) + "\n" + operators_text(profile, palette);
  if (profile.has_bounds()) {
    text += "\nAt most: with operators that the runtime fused from nodes of this module and of others'.\n";
  }
  if (profile.overlaps()) text += "\nWall: operators that ran at the same time are counted once.\n";
  if (profile.merged > 0) text += "\n" + merged_text(profile) + "\n";
  const bool compiled = std::ranges::any_of(profile.layers, [](const ProfiledLayer& layer) {
    return !layer.modules.row && !layer.runtime_layer.compiled.empty();
  });
  if (compiled) {
    text +=
        "\nTo attribute operators that a provider compiled, pass the session's list of providers as a second "
        "--profile.\n";
  } else if (profile.unattributed > 0 && !profile.matched && profile.source.starts_with("onnxruntime")) {
    text +=
        "\nTo attribute operators that fusion renamed, pass --optimized FILE, which the session saves with "
        "SessionOptions.optimized_model_filepath.\n";
  }
  if (profile.unattributed > 0 && profile.source == "openvino-counters") {
    text += "\nOpenVINO's runtime model (get_runtime_model()) lists more of the nodes in its layers.\n";
  }
  return text;
}

}  // namespace whence::profile
