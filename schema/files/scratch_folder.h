// A folder beside an output for what must not be seen half done; gone with the object.
#pragma once

#include <filesystem>
#include <string>

#include "schema/result.h"

namespace whence {

// A path of this name in the system's folder for temporary files, or in the working folder where there is none.
std::string temporary_path(const std::string& name);

class ScratchFolder {
 public:
  // Throws Error(cannot_write).
  explicit ScratchFolder(const std::string& output);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  // A path in the folder; nothing is made.
  std::string file(const std::string& name) const { return (std::filesystem::path(path_) / name).string(); }
  const std::string& path() const { return path_; }

  // The same diagnostics about the files that users know: those beside the output.
  Diagnostics as_seen(Diagnostics diagnostics) const;

 private:
  void replace(std::string& text) const;

  std::filesystem::path folder_;
  std::string path_;
  int fd_ = -1;  // its lock says that this process lives
};

}  // namespace whence
