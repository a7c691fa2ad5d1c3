// Prints the comparison as text: a table of the modules that differ, then the nodes by kind of change.
#include <algorithm>

#include "annotator/view/diff.h"
#include "annotator/view/tree_text.h"

namespace whence::view {

using text::Cell;
using text::grouped;
using text::number_or_blank;
using text::Palette;

namespace {

constexpr std::size_t nodes_shown = 10;  // for each kind of change

std::string counted(std::int64_t count, const std::string& noun) {
  return grouped(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string_view style_of(Change change, const Palette& palette) {
  switch (change) {
    case Change::added:
      return palette.green;
    case Change::removed:
      return palette.red;
    case Change::fused:
    case Change::replaced:
    case Change::changed:
    case Change::moved:
      return palette.yellow;
    case Change::renamed:
      return palette.dim;
  }
  return {};
}

std::string module_text(const std::vector<std::string>& modules) {
  if (modules.empty()) return "(no module)";
  std::string text;
  for (const std::string& module : modules) text += (text.empty() ? "" : ", ") + shown_path(module);
  return text;
}

std::string head_text(const ModelDiff& diff, const Palette& palette) {
  const auto line = [&](const std::string& file, std::int64_t nodes, std::int64_t parameters) {
    return std::string(palette.bold) + printable(file) + std::string(palette.reset) + ": " + counted(nodes, "node") +
           ", " + counted(parameters, "weight") + " read" + "\n";
  };
  return line(diff.file_a, diff.all.nodes_a, diff.all.parameters_a) +
         line(diff.file_b, diff.all.nodes_b, diff.all.parameters_b);
}

std::string modules_text(const ModelDiff& diff, const DiffText& options, const Palette& palette) {
  std::vector<ModuleTable::Column> columns;
  for (const char* title : {"nodes", "->", "weights read", "->"}) columns.emplace_back(title, text::Align::right);
  for (std::size_t i = 0; i < change_count; ++i) {
    columns.emplace_back(name_of(static_cast<Change>(i)), text::Align::right);
  }
  ModuleTable table(palette, columns);
  for (const ModuleDiff& row : diff.modules) {
    if ((row.same() && !options.every_module) || (options.depth && row.level > *options.depth)) continue;
    std::vector<Cell> cells = {
        grouped(row.nodes_a), Cell(grouped(row.nodes_b), row.nodes_a == row.nodes_b ? "" : palette.yellow),
        number_or_blank(row.parameters_a),
        Cell(number_or_blank(row.parameters_b), row.parameters_a == row.parameters_b ? "" : palette.yellow)};
    for (std::size_t i = 0; i < change_count; ++i) {
      cells.emplace_back(number_or_blank(row.changes[i]), style_of(static_cast<Change>(i), palette));
    }
    if (row.path) {
      table.module(*row.path, std::move(cells));
    } else {
      table.apart("(no module)", std::move(cells));
    }
  }
  return table.text();
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string node_text(const ChangedNode& node) {
  switch (node.change) {
    case Change::added:
      return node.name_b + (node.inserted ? " inserted in " : " in ") + module_text(node.modules_b);
    case Change::removed:
      return node.name_a + " of " + module_text(node.modules_a);
    case Change::renamed:
      return node.name_a + " -> " + node.name_b;
    case Change::moved:
      return node.name_b + " from " + module_text(node.modules_a) + " to " + module_text(node.modules_b);
    case Change::changed:
      return node.name_b + " of " + module_text(node.modules_b) + ": " + joined(node.differences);
    case Change::fused:
    case Change::replaced:
      break;
  }
  return node.name_b + " in " + module_text(node.modules_b) + " for " + joined(node.fused);
}

std::string nodes_text(const ModelDiff& diff, const DiffText& options, const Palette& palette) {
  std::string text;
  for (std::size_t i = 0; i < change_count; ++i) {
    const auto change = static_cast<Change>(i);
    const std::int64_t count = diff.all[change];
    if (count == 0) continue;
    text += "\n" + std::string(style_of(change, palette)) + std::string(name_of(change)) + std::string(palette.reset) +
            ": " + counted(count, "node") + "\n";
    std::size_t shown = 0;
    for (const ChangedNode& node : diff.nodes) {
      if (node.change != change || (!options.every_node && shown == nodes_shown)) continue;
      ++shown;
      text += "  " + printable(node.op_type + " " + node_text(node)) + "\n";
    }
    const std::int64_t left = count - static_cast<std::int64_t>(shown);
    if (left > 0) text += "  and " + grouped(left) + " more: --nodes lists them\n";
  }
  return text;
}

}  // namespace

std::string to_text(const ModelDiff& diff, const DiffText& options, const Palette& palette) {
  std::string text = head_text(diff, palette);
  if (diff.same() && !options.every_module) return text + "no difference\n";
  if (!diff.model.empty()) text += "model: " + printable(joined(diff.model)) + "\n";
  return text + "\n" + modules_text(diff, options, palette) + nodes_text(diff, options, palette);
}

}  // namespace whence::view
