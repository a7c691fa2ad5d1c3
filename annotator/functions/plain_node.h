// PlainNode: a node without bodies and tensors whose bytes are exactly those that protobuf would write. Nearly every
// node of a large file is plain, and can be checked, compared and written without becoming a message.
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
  std::string_view op_type, domain, overload;  // complete fields with their tags; empty if absent
};

// Returns nullopt for any other node, even one that protobuf would write with the same bytes.
std::optional<PlainNode> read_plain_node(std::string_view message);

}  // namespace whence::functions
