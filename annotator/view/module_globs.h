// Patterns (text/patterns.h) that select modules of a file: each selects the modules that it matches and all below
// them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "annotator/metadata/attribution.h"
#include "annotator/text/patterns.h"

namespace whence::view {

// Returns the modules that nodes name, and their ancestors. Throws Error(usage) if there are none.
std::set<std::string> modules_of(const std::vector<metadata::Attribution>& attributions, const std::string& stage);

// Throws Error(usage) with the names in `known` that are nearest to `pattern`.
[[noreturn]] void refuse_unknown(const std::string& kind, const std::string& pattern,
                                 const std::set<std::string>& known, const std::string& stage);

// Caches the result for each module.
class ModuleGlobs {
 public:
  // Throws Error(usage) for a pattern that matches none of `modules`.
  ModuleGlobs(const std::vector<std::string>& globs, const std::set<std::string>& modules, const std::string& stage);

  // Adds modules, each with all below it, as if a glob matched them.
  void add(std::set<std::string> modules) { further_ = std::move(modules); }

  // Returns true if the module is selected. A glob that matches the root selects only the root, not its descendants.
  bool hold(const std::string& module);
  bool hold_any(const metadata::Attribution& attribution);

 private:
  text::Patterns patterns_;
  std::set<std::string> further_;
  std::map<std::string, bool> known_;
};

}  // namespace whence::view
