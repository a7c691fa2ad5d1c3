// Values as Python prints them, the format of PyTorch's metadata.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace whence::origin {

// repr() of a string: 'a', "it's", '\\n'. Keeps bytes outside ASCII.
std::string python_repr(std::string_view text);
// repr() of a list of strings.
std::string python_repr(const std::vector<std::string>& texts);
// str() of a float: 0.1, 1e-12, 1.0, inf.
std::string python_float(double number);
// Appends an item to "a, b", the text between the brackets of a list.
inline void append_item(std::string& list, std::string_view item) {
  if (!list.empty()) list += ", ";
  list += item;
}

}  // namespace whence::origin
