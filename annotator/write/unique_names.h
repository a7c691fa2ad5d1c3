// Hands out names that are not taken yet: the wanted one, else with `_1`, `_2`, ... appended.
// Cost: constant per name in the usual case, also for a thousand claims of one name.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

namespace whence {

class UniqueNames {
 public:
  std::string claim(const std::string& wanted) {
    if (taken_.insert(wanted).second) return wanted;
    std::int64_t& next = next_number_[wanted];
    while (true) {
      std::string candidate = wanted + "_" + std::to_string(++next);
      if (taken_.insert(candidate).second) return candidate;
    }
  }

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, std::int64_t> next_number_;
};

}  // namespace whence
