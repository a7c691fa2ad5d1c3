#include "annotator/validation/names_said.h"

#include "schema/module_path.h"

namespace whence::validation {

std::string names_without_source(std::size_t at, const ToolEdit& edit) {
  const metadata::Attribution& stated = edit.after[at].attribution;
  const bool names_own_module = stated.confidence < origin::Confidence::ancestor;
  StatedNames remaining = names_of(stated);
  edit.any_source(at, [&](const view::DiffNode& source) {
    const StatedNames names = names_of(source.attribution);
    std::erase_if(remaining.ids, [&](const std::string& id) { return names.ids.contains(id); });
    std::erase_if(remaining.modules, [&](const std::string& module) {
      return names.modules.contains(module) ||
             (!names_own_module &&
              std::ranges::any_of(names.modules, [&](const auto& inner) { return at_or_below(inner, module); }));
    });
    return remaining.ids.empty() && remaining.modules.empty();
  });
  return missing_from(remaining, {});
}

}  // namespace whence::validation
