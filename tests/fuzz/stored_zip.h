// Zip archives with stored members, for targets whose hostile input is a member.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace whence::fuzz {

using ZipMembers = std::vector<std::pair<std::string, std::string_view>>;  // name, content

std::string stored_zip(const ZipMembers& members);

}  // namespace whence::fuzz
