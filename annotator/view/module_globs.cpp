#include "annotator/view/module_globs.h"

#include <algorithm>

#include "schema/module_path.h"
#include "schema/nearest_names.h"

namespace whence::view {

std::set<std::string> modules_of(const std::vector<metadata::Attribution>& attributions, const std::string& stage) {
  std::set<std::string> modules;
  for (const metadata::Attribution& of : attributions) {
    if (!of.attributed()) continue;
    for (const std::string& module : of.modules) {
      for (std::string path = module; modules.insert(path).second && !path.empty();) {
        path.resize(module_around(path).size());
      }
    }
  }
  if (modules.empty()) {
    throw Error(Code::usage, "no node of the file names its module", "run `whence annotate` on it first",
                {.stage = stage});
  }
  return modules;
}

void refuse_unknown(const std::string& kind, const std::string& pattern, const std::set<std::string>& known,
                    const std::string& stage) {
  throw Error(Code::usage, "no " + kind + " of the file matches '" + pattern + "'",
              nearest_remedy(pattern, {known.begin(), known.end()}, "`whence show` lists modules and operators"),
              {.stage = stage});
}

ModuleGlobs::ModuleGlobs(const std::vector<std::string>& globs, const std::set<std::string>& modules,
                         const std::string& stage)
    : patterns_(text::Patterns::of_paths(globs)) {
  std::set<std::size_t> unmatched;
  for (std::size_t i = 0; i < globs.size(); ++i) unmatched.insert(i);
  for (auto module = modules.begin(); module != modules.end() && !unmatched.empty(); ++module) {
    for (const std::size_t glob : patterns_.matching(*module)) unmatched.erase(glob);
  }
  if (!unmatched.empty()) refuse_unknown("module", globs[*unmatched.begin()], modules, stage);
}

bool ModuleGlobs::hold(const std::string& module) {
  if (const auto known = known_.find(module); known != known_.end()) return known->second;
  const std::string outer(module_around(module));
  const bool held = further_.contains(module) || patterns_.match(module) || (!outer.empty() && hold(outer));
  return known_[module] = held;
}

bool ModuleGlobs::hold_any(const metadata::Attribution& attribution) {
  return attribution.attributed() &&
         std::ranges::any_of(attribution.modules, [&](const std::string& module) { return hold(module); });
}

}  // namespace whence::view
