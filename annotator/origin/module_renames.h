// ModuleRenames: the modules of one call in place of those of another, known from the parameters that both read. If one
// reads layers.0.fc.weight where the other reads layers.2.fc.weight, layers.2.fc takes the place of layers.0.fc, and
// layers.2 that of layers.0.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace whence::origin {

class ModuleRenames {
 public:
  // The module `to` takes the place of `from`. So do the modules around them, as long as their names in their parents
  // are equal.
  void add(std::string_view from, std::string_view to);
  // Returns the modules that take the place of the innermost known module at or around `module`, with the rest of the
  // path appended. Empty if none is known inside `scope`; several if parameters contradict each other.
  std::set<std::string> all(std::string_view module, std::string_view scope = "") const;
  // Returns the only one of them; nullopt if there is none or more than one.
  std::optional<std::string> at(std::string_view module, std::string_view scope = "") const;

 private:
  std::map<std::string, std::set<std::string>, std::less<>> renamed_;
};

}  // namespace whence::origin
