// The lowest common ancestor of modules: "encoder.layer" for "encoder.layer.0" and "encoder.layer.1.attention".
#pragma once

#include <string>
#include <vector>

#include "schema/module_path.h"

namespace whence::origin {

// `modules` are qualified names, at least one.
inline std::string common_module(const std::vector<std::string>& modules) {
  std::string_view common = modules.front();
  for (const std::string& module : modules) {
    while (!at_or_below(module, common)) common = module_around(common);
  }
  return std::string(common);
}

}  // namespace whence::origin
