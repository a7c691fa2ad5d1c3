// ModuleTable: the one printer of module trees: aligned columns behind a tree of modules, each under the nearest module
// above it that was printed, by what its path adds to that one's. show, explain, diff, profile and validate print by
// it.
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

  // `columns`: those behind the tree, whose title is "module".
  ModuleTable(const text::Palette& palette, const std::vector<Column>& columns, const std::string& indent = "");

  // Modules in depth-first order, with or without those between them. `note`: behind the name, aliases for example.
  void module(const std::string& path, std::vector<text::Cell> cells, std::string_view style = {},
              const std::string& note = "");
  // Something of the last module, one step to the right of it: a call, a node.
  void below(const std::string& text, std::vector<text::Cell> cells, std::string_view style = {});
  // What stands in no module.
  void apart(const std::string& text, std::vector<text::Cell> cells, std::string_view style = {});

  std::string text() const { return table_.text(); }

 private:
  void add(std::size_t depth, const std::string& label, std::vector<text::Cell> cells, std::string_view style);

  text::Table table_;
  std::vector<std::string> above_;  // paths of the last module printed and of those that it stands under
};

// "encoder.layer.0", or "(root)" for the empty path
std::string shown_path(const std::string& path);
// "Linear" of "torch.nn.modules.linear.Linear"
std::string class_name(const std::string& type);

}  // namespace whence::view
