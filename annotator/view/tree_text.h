// A module tree as text for people and as JSON for machines (schema/show.schema.json).
#pragma once

#include <string>

#include "annotator/view/module_table.h"
#include "annotator/view/module_tree.h"

namespace whence::view {

std::string to_text(const ModuleTree& tree, const std::vector<ShownRow>& rows, const text::Palette& palette);
std::string to_json(const ModuleTree& tree, const std::vector<ShownRow>& rows, const std::string& file);

}  // namespace whence::view
