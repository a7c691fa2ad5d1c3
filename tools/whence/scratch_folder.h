// A folder beside an output for what must not be seen half done; gone with the object.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "schema/result.h"

namespace whence {

class ScratchFolder {
 public:
  // Throws Error(cannot_write).
  explicit ScratchFolder(const std::string& output) {
    const std::filesystem::path folder = std::filesystem::path(output).parent_path();
    path_ = (folder.empty() ? std::filesystem::path(".") : folder) / ".whence-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) {
      throw Error(Code::cannot_write, "no folder can be made beside " + output,
                  "check that the folder exists and may be written to", {.file = output, .stage = "write"});
    }
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  // A path in the folder; nothing is made.
  std::string file(const std::string& name) const { return (std::filesystem::path(path_) / name).string(); }

 private:
  std::string path_;
};

}  // namespace whence
