// Assigns unique names: the preferred one, or with `_1`, `_2`, ... appended if it is taken. Cost: usually constant per
// name, even for a thousand claims of one name.
//
// Stores only hashes of taken names. If two names had the same hash, the second would get an unnecessary number.
#pragma once

#include <cstdint>
#include <string>

#include "schema/flat_map.h"

namespace whence::text {

class UniqueNames {
 public:
  std::string claim(const std::string& name) {
    if (take(name)) return name;
    std::int64_t& next = next_number_[name];
    while (true) {
      std::string candidate = name + "_" + std::to_string(++next);
      if (take(candidate)) return candidate;
    }
  }

 private:
  bool take(const std::string& name) { return name_hashes_.insert(StringHash()(name)).second; }

  FlatSet<std::size_t> name_hashes_;
  FlatMap<std::string, std::int64_t> next_number_;
};

}  // namespace whence::text
