// The module of the main operation of a fused operator.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "annotator/operators/main_operation.h"
#include "annotator/origin/common_module.h"

namespace whence::metadata {

// `operations`: those that the operator replaced, as for main_operations(); `modules`: of each. If it has several main
// operations, returns the module around them.
inline std::string main_module(std::string_view op_type, const std::vector<std::string_view>& operations,
                               const std::vector<std::string>& modules) {
  std::vector<std::string> of_main;
  for (const std::size_t position : operators::main_operations(op_type, operations)) {
    of_main.push_back(modules[position]);
  }
  return origin::common_module(of_main);
}

}  // namespace whence::metadata
