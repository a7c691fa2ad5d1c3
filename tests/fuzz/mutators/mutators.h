// Mutators that keep an input well-formed, so that the code after its parser is reached.
#pragma once

#include <string>
#include <string_view>

namespace whence::fuzz {

// Mutates protobuf's wire format: removes, repeats, swaps, replaces or changes a field at any depth, and adjusts the
// lengths of the enclosing messages. Returns an empty string if the input is not a message.
std::string mutate_protobuf(std::string_view message, unsigned random);

// Mutates JSON: removes, repeats, swaps or replaces a value or an entry anywhere. Returns an empty string if the input
// is not JSON.
std::string mutate_json(std::string_view text, unsigned random);

}  // namespace whence::fuzz
