// A module tree as text for people and as JSON for machines (schema/show.schema.json).
#pragma once

#include <string>

#include "annotator/view/module_tree.h"
#include "annotator/view/table.h"

namespace whence {

std::string to_text(const ModuleTree& tree, const std::vector<ShownRow>& rows, const Palette& palette);
std::string to_json(const ModuleTree& tree, const std::vector<ShownRow>& rows, const std::string& file);

// "Linear" of "torch.nn.modules.linear.Linear"
std::string class_name(const std::string& type);
// "encoder.layer.0", or "(root)" for the empty path
std::string shown_path(const std::string& path);

}  // namespace whence
