// The names by which nodes are known: those in the file, those that they had before `whence annotate` renamed them, and
// those of the values that they make. Profiles, lists of providers and logs of the file before hold the old ones.
// Every use that takes names of nodes resolves them here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"
#include "whence/diagnostics.h"

namespace whence::metadata {

enum class NameAge : std::uint8_t { present, original };

// The name of a node at that age. The original name of a node that annotate did not rename is the present one.
std::string_view name_of(const onnx_file::OnnxNode& node, NameAge age);

// The nodes that a name stands for: those that have it, else those that had it before annotate, else those that make
// the value of that name.
struct NamedNodes {
  enum class By : std::uint8_t { present_name, original_name, value };

  std::vector<const onnx_file::OnnxNode*> nodes;  // several where the file gives a name twice
  By by = By::present_name;
  std::vector<const onnx_file::OnnxNode*> formerly;  // others, which had the name before annotate
};
NamedNodes find_nodes(const std::vector<const onnx_file::OnnxNode*>& nodes, std::string_view name);

// The longest beginning of `name` that `known` holds for, where more than a number follows: tools call what they make
// of a node "<name>/MatMulAddFusion", and "/Add_1" is another node than "/Add". Empty: none.
template <class Known>
std::string_view known_beginning(std::string_view name, const Known& known) {
  for (std::size_t end = name.size(); end > 1; --end) {
    if (name[end - 1] != '/' && name[end - 1] != '_') continue;
    const bool number = name.substr(end).find_first_not_of("0123456789_") == std::string_view::npos;
    if (!number && known(name.substr(0, end - 1))) return name.substr(0, end - 1);
  }
  return {};
}

// The age of the names in a list that a runtime wrote: that at which more of them are names of nodes.
struct ListedNames {
  NameAge age = NameAge::present;
  bool ambiguous = false;  // as many are names of both ages, and some of them of two different nodes
};
ListedNames age_of_names(const std::vector<const onnx_file::OnnxNode*>& nodes, const std::vector<std::string>& names);

// The warning for a list whose names are ambiguous.
Diagnostic ambiguous_names(const std::string& list);

}  // namespace whence::metadata
