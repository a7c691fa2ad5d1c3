// Source paths relative to the root of a repository, for tools that show findings next to the code.
#pragma once

#include <optional>
#include <string>

#include "schema/program.h"

namespace whence {

class SourceRoot {
 public:
  // An empty folder means the working folder.
  explicit SourceRoot(const std::string& folder = "");

  // Returns the path of an existing file relative to the root; nullopt if the file is not below the root.
  std::optional<std::string> below(const std::string& file) const;

  // Returns the relative path of a recorded source file. A file that was recorded in a container or on another machine
  // is found at the root by the end of its path. nullopt also for files of installed packages.
  std::optional<std::string> find(const std::string& source) const;

  // Returns "src/model.py:17 forward" for the innermost frame whose file find() finds, otherwise the innermost frame
  // with its recorded path. Empty if no frame has a file.
  std::string place_in(const Stack& stack) const;

 private:
  std::string root_;  // absolute, with a slash at its end
};

}  // namespace whence
