// Text from files that somebody else wrote, made fit for a terminal: names may hold anything.
#pragma once

#include <string>
#include <string_view>

namespace whence {

// Control characters and bytes that are no UTF-8 become visible: \n, \x1b, \xff. Everything else stays.
std::string printable(std::string_view text);

}  // namespace whence
