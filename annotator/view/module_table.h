// ModuleTable: prints a tree of modules with aligned columns behind it, for show, explain, diff, profile and validate.
// Each module stands under its nearest ancestor in the table, and shows only the part of its path that is not the
// ancestor's.
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

  // `columns`: behind the tree, whose own column has the title "module".
  ModuleTable(const text::Palette& palette, const std::vector<Column>& columns, const std::string& indent = "");

  // Adds a module. Call it in depth-first order; ancestors may be left out. `note`: behind the name, for example
  // aliases.
  void module(const std::string& path, std::vector<text::Cell> cells, std::string_view style = {},
              const std::string& note = "");
  // Adds a line that belongs to the last module, one step to the right of it: a call, a node.
  void below(const std::string& text, std::vector<text::Cell> cells, std::string_view style = {});
  // Adds a line for things that are in no module.
  void apart(const std::string& text, std::vector<text::Cell> cells, std::string_view style = {});

  std::string text() const { return table_.text(); }

 private:
  void add(std::size_t depth, const std::string& label, std::vector<text::Cell> cells, std::string_view style);

  text::Table table_;
  std::vector<std::string> above_;  // paths of the last module added and of the modules it stands under
};

// "encoder.layer.0", or "(root)" for the empty path
std::string shown_path(const std::string& path);

}  // namespace whence::view
