// Hands out names that are not taken yet: the wanted one, else with `_1`, `_2`, ... appended.
// Cost: constant per name in the usual case, also for a thousand claims of one name.
//
// A name that is taken is kept as its hash: were two names ever to share one, the second would get a number that it did
// not need.
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
