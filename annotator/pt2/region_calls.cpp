#include "annotator/pt2/region_calls.h"

#include <algorithm>

#include "schema/module_path.h"

namespace whence::pt2 {

RegionModules::RegionModules(std::string_view first, std::string_view here,
                             const std::vector<OperandNames>& first_operands, const std::vector<OperandNames>& operands)
    : first_(first), here_(here), in_one_module_(first == here) {
  for (std::size_t i = 0; i < operands.size() && i < first_operands.size(); ++i) {
    if (first_operands[i].empty() || operands[i].empty()) continue;
    const bool follows = std::ranges::any_of(first_operands[i], [&](const std::string& name) {
      return std::ranges::find(operands[i], moved(name)) != operands[i].end();
    });
    follows_call_ = follows_call_ && follows;
    for (const std::string& name : first_operands[i]) {
      for (const std::string& other : operands[i]) {
        if (last_segment(name) == last_segment(other)) renames_.add(module_around(name), module_around(other));
      }
    }
  }
}

std::string RegionModules::moved(std::string_view module) const {
  if (!at_or_below(module, first_)) return std::string(module);
  if (module == first_) return here_;
  return joined_path(here_, module.substr(first_.empty() ? 0 : first_.size() + 1));
}

std::optional<std::string> RegionModules::at(std::string_view module) const {
  if (module == first_) return here_;
  if (!at_or_below(module, first_)) return std::nullopt;
  return follows_call_ && !in_one_module_ ? moved(module) : renames_.at(module, first_);
}

}  // namespace whence::pt2
