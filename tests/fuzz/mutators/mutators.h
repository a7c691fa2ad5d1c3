// Mutators that keep the form of an input, so that what lies behind its reader is reached.
#pragma once

#include <string>
#include <string_view>

namespace whence::fuzz {

// Protobuf's wire format: a field somewhere in the nested messages is removed, doubled, swapped with another, replaced
// by another, or gets other content. Lengths of the messages around it stay right. Empty for what is no message.
std::string mutate_protobuf(std::string_view message, unsigned random);

// JSON: a value or an entry somewhere is removed, doubled, swapped with another, or becomes another. Empty for what is
// no JSON.
std::string mutate_json(std::string_view text, unsigned random);

}  // namespace whence::fuzz
