// ModuleTable: prints a tree of modules with aligned columns to its right, for show, explain, diff, profile and
// validate. Each module is printed under its nearest ancestor in the table, without the ancestor's part of its path.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "annotator/text/table.h"

namespace whence::view {

class ModuleTable {
 public:
  using Column = std::pair<std::string, text::Align>;  // title, alignment

  // `columns` follow the tree, whose column has the title "module".
  ModuleTable(const text::Palette& palette, const std::vector<Column>& columns, const std::string& indent = "");

  // Adds a module. Call it in depth-first order; ancestors may be left out. `note` follows the name, for example
  // aliases.
  void module(const std::string& path, std::vector<text::Cell> cells, std::string_view style = {},
              const std::string& note = "");
  // Adds a line under the last module, indented by one step: a call, a node.
  void below(const std::string& text, std::vector<text::Cell> cells, std::string_view style = {});
  // Adds an unindented line for nodes without a module.
  void apart(const std::string& text, std::vector<text::Cell> cells, std::string_view style = {});

  std::string text() const { return table_.text(); }

 private:
  void add(std::size_t depth, const std::string& label, std::vector<text::Cell> cells, std::string_view style);

  text::Table table_;
  std::vector<std::string> above_;  // paths of the last module added and of its ancestors in the table
};

// Returns the path, or "(root)" for the empty path.
std::string shown_path(const std::string& path);

}  // namespace whence::view
