// Resolves names of nodes: present names, names before `whence annotate` renamed the nodes, and names of values that
// they produce. Profiles, provider lists and logs of the original file contain the original names. Every command that
// accepts node names resolves them here.
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

// Returns the node's name of that age. If annotate did not rename the node, the original name is the present one.
std::string_view name_of(const onnx_file::OnnxNode& node, NameAge age);

// The nodes that a name refers to: the nodes with this name, else the nodes that had it before annotate, else the nodes
// that produce the value of this name.
struct NamedNodes {
  enum class By : std::uint8_t { present_name, original_name, value };

  std::vector<const onnx_file::OnnxNode*> nodes;  // several if the file uses a name more than once
  By by = By::present_name;
  std::vector<const onnx_file::OnnxNode*> formerly;  // other nodes that had the name before annotate
};
NamedNodes find_nodes(const std::vector<const onnx_file::OnnxNode*>& nodes, std::string_view name);

// Returns the longest prefix of `name` before a '/' or '_' that `known` accepts; empty if there is none. A node
// that a tool derives from another is named "<name>/MatMulAddFusion". A prefix is rejected if only a number follows:
// "/Add_1" is not derived from "/Add".
template <class Known>
std::string_view known_prefix(std::string_view name, const Known& known) {
  for (std::size_t end = name.size(); end > 1; --end) {
    if (name[end - 1] != '/' && name[end - 1] != '_') continue;
    const bool number = name.substr(end).find_first_not_of("0123456789_") == std::string_view::npos;
    if (!number && known(name.substr(0, end - 1))) return name.substr(0, end - 1);
  }
  return {};
}

// The age of the names in a list written by a runtime: the age at which more of them are names of nodes.
struct ListedNames {
  NameAge age = NameAge::present;
  bool ambiguous = false;  // equally many names fit both ages, and some denote different nodes
};
ListedNames age_of_names(const std::vector<const onnx_file::OnnxNode*>& nodes, const std::vector<std::string>& names);

// Returns the warning for a list with ambiguous names.
Diagnostic ambiguous_names(const std::string& list);

}  // namespace whence::metadata
