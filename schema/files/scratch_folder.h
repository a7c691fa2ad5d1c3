// A temporary folder next to an output for incomplete files. The destructor removes it.
#pragma once

#include <filesystem>
#include <string>

#include "schema/result.h"

namespace whence {

// Returns a path with this name in the system's temporary folder, or in the working folder if there is none.
std::string temporary_path(const std::string& name);

class ScratchFolder {
 public:
  // Throws Error(cannot_write).
  explicit ScratchFolder(const std::string& output);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  // Returns a path in the folder without creating the file.
  std::string file(const std::string& name) const { return (std::filesystem::path(path_) / name).string(); }
  const std::string& path() const { return path_; }

  // Replaces paths in this folder with the corresponding paths next to the output, which users know.
  Diagnostics with_user_paths(Diagnostics diagnostics) const;

 private:
  void replace(std::string& text) const;

  std::filesystem::path folder_;
  std::string path_;
  int fd_ = -1;  // its lock shows that this process is alive
};

}  // namespace whence
