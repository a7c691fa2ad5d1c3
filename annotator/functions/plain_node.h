// PlainNode: a node whose bytes are those that protobuf would write, and which holds no bodies and no tensors. Nearly
// every node of a large file is one, and need not become a message to be checked, compared or written.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace whence::functions {

struct PlainAttribute {
  std::string_view name;
  std::string_view message;
};

struct PlainNode {
  std::vector<std::string_view> inputs, outputs;
  std::vector<PlainAttribute> attributes;
  std::string_view op_type, domain, overload;  // complete fields with their tags; empty when absent
};

// Returns nullopt for every other node, whose bytes may be right all the same.
std::optional<PlainNode> read_plain_node(std::string_view message);

}  // namespace whence::functions
