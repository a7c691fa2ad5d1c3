#include "annotator/view/module_table.h"

#include "schema/module_path.h"

namespace whence::view {

using text::Align;
using text::Cell;

namespace {

std::vector<Align> alignments(const std::vector<ModuleTable::Column>& columns) {
  std::vector<Align> all = {Align::left};
  for (const auto& [title, align] : columns) all.push_back(align);
  return all;
}

}  // namespace

ModuleTable::ModuleTable(const text::Palette& palette, const std::vector<Column>& columns, const std::string& indent)
    : table_(palette, alignments(columns), indent) {
  std::vector<std::string> titles = {"module"};
  for (const auto& [title, align] : columns) titles.push_back(title);
  table_.header(std::move(titles));
}

void ModuleTable::module(const std::string& path, std::vector<Cell> cells, std::string_view style,
                         const std::string& note) {
  while (!above_.empty() && (path == above_.back() || !at_or_below(path, above_.back()))) above_.pop_back();
  const std::size_t known = above_.empty() || above_.back().empty() ? 0 : above_.back().size() + 1;
  add(above_.size(), shown_path(path).substr(path.empty() ? 0 : known) + note, std::move(cells), style);
  above_.push_back(path);
}

void ModuleTable::below(const std::string& text, std::vector<Cell> cells, std::string_view style) {
  add(above_.size(), text, std::move(cells), style);
}

void ModuleTable::apart(const std::string& text, std::vector<Cell> cells, std::string_view style) {
  above_.clear();
  add(0, text, std::move(cells), style);
}

void ModuleTable::add(std::size_t depth, const std::string& label, std::vector<Cell> cells, std::string_view style) {
  cells.insert(cells.begin(), Cell(std::string(depth * 2, ' ') + label, style));
  table_.row(std::move(cells));
}

std::string shown_path(const std::string& path) { return path.empty() ? "(root)" : path; }

}  // namespace whence::view
