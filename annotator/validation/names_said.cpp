#include "annotator/validation/names_said.h"

#include "schema/module_path.h"

namespace whence::validation {

std::string named_beside_sources(std::size_t at, const ToolEdit& edit) {
  const metadata::Attribution& said = edit.after[at].attribution;
  const bool is_sure = said.confidence < origin::Confidence::ancestor;
  NamesSaid left = names_of(said);
  edit.any_source(at, [&](const view::DiffNode& source) {
    const NamesSaid names = names_of(source.attribution);
    std::erase_if(left.ids, [&](const std::string& id) { return names.ids.contains(id); });
    std::erase_if(left.modules, [&](const std::string& module) {
      return names.modules.contains(module) || (!is_sure && std::ranges::any_of(names.modules, [&](const auto& inner) {
               return at_or_below(inner, module);
             }));
    });
    return left.ids.empty() && left.modules.empty();
  });
  return missing_from(left, {});
}

}  // namespace whence::validation
