// Files by their paths from the root of a repository, as tools know them that show findings beside the code.
#pragma once

#include <optional>
#include <string>

#include "schema/program.h"

namespace whence {

class SourceRoot {
 public:
  // The folder; empty is the working folder.
  explicit SourceRoot(const std::string& folder = "");

  // The path from the root of a file on this disk; nullopt for one that does not lie below the root.
  std::optional<std::string> below(const std::string& file) const;

  // The same for a source file as a recording names it. One that was recorded elsewhere, in a container or on another
  // machine, is the file at the root that the end of its path names. nullopt for files of installed packages, too.
  std::optional<std::string> find(const std::string& source) const;

  // "src/model.py:17 forward": the innermost frame whose file find() knows, or else the innermost one by its whole
  // path. Empty where no frame has a file.
  std::string place_in(const Stack& stack) const;

 private:
  std::string root_;  // absolute, with a slash at its end
};

}  // namespace whence
