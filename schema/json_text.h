// JSON as text, in one way everywhere: names from files of others may hold bytes that are not UTF-8, and become U+FFFD
// instead of an exception.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace whence {

// On one line, or over several with `indent` spaces a level.
template <class Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace whence
