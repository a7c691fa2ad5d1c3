// Values as Python prints them: the form in which PyTorch writes its metadata keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace whence::origin {

// repr() of a string: 'a', "it's", '\\n'. Bytes outside ASCII stay as they are.
std::string python_repr(std::string_view text);
// repr() of a list of strings.
std::string python_repr(const std::vector<std::string>& texts);
// str() of a float: 0.1, 1e-12, 1.0, inf.
std::string python_float(double number);
// To "a, b", what stands between the brackets of a list.
inline void append_item(std::string& list, std::string_view item) {
  if (!list.empty()) list += ", ";
  list += item;
}

}  // namespace whence::origin
