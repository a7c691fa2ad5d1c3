// Patterns (text/patterns.h) that choose modules of a file: one means the modules that it matches and all below them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "annotator/metadata/attribution.h"
#include "annotator/text/patterns.h"

namespace whence::view {

// Modules that nodes name, and those around them. Throws Error(usage) when there are none.
std::set<std::string> modules_of(const std::vector<metadata::Attribution>& attributions, const std::string& stage);

// Throws Error(usage), with the names of `known` that are nearest to `pattern`.
[[noreturn]] void refuse_unknown(const std::string& kind, const std::string& pattern,
                                 const std::set<std::string>& known, const std::string& stage);

// Each module is compared once.
class ModuleGlobs {
 public:
  // Throws Error(usage) for a pattern that matches none of `modules`.
  ModuleGlobs(const std::vector<std::string>& globs, const std::set<std::string>& modules, const std::string& stage);

  // Further modules, each with all below it, as if a glob matched them.
  void add(std::set<std::string> modules) { further_ = std::move(modules); }

  // One that matches the root holds the root alone, not all that is in it.
  bool hold(const std::string& module);
  bool hold_any(const metadata::Attribution& attribution);

 private:
  text::Patterns patterns_;
  std::set<std::string> further_;
  std::map<std::string, bool> known_;
};

}  // namespace whence::view
