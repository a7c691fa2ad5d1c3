// A folder beside an output for what must not be seen half done; gone with the object.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "schema/files/temporary_names.h"
#include "schema/result.h"

namespace whence {

class ScratchFolder {
 public:
  // Throws Error(cannot_write).
  explicit ScratchFolder(const std::string& output) : folder_(beside(output)) {
    std::error_code ignored;
    const std::filesystem::path target(output);
    const bool device = std::filesystem::exists(target, ignored) && !std::filesystem::is_regular_file(target, ignored);
    path_ = (device ? std::filesystem::temp_directory_path() / ".whence-XXXXXX" : folder_ / ".whence-XXXXXX").string();
    if (mkdtemp(path_.data()) == nullptr) {
      throw Error(Code::cannot_write, "no folder can be made beside " + output,
                  "check that the folder exists and may be written to", {.file = output, .stage = "write"});
    }
    remember_temporary(path_.c_str());
  }
  ~ScratchFolder() {
    forget_temporary(path_.c_str());
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  // A path in the folder; nothing is made.
  std::string file(const std::string& name) const { return (std::filesystem::path(path_) / name).string(); }
  const std::string& path() const { return path_; }

  // The same diagnostics about the files that users know: those beside the output.
  Diagnostics as_seen(Diagnostics diagnostics) const {
    for (Diagnostic& each : diagnostics) {
      for (std::string* text : {&each.message, &each.where.file, &each.remedy}) replace(*text);
    }
    return diagnostics;
  }

 private:
  static std::filesystem::path beside(const std::string& output) {
    const std::filesystem::path folder = std::filesystem::path(output).parent_path();
    return folder.empty() ? std::filesystem::path(".") : folder;
  }

  void replace(std::string& text) const {
    const std::string beside_output = folder_ == "." ? "" : (folder_ / "").string(), scratch = path_ + "/";
    for (std::size_t at = 0; (at = text.find(scratch, at)) != std::string::npos; at += beside_output.size()) {
      text.replace(at, scratch.size(), beside_output);
    }
  }

  std::filesystem::path folder_;
  std::string path_;
};

}  // namespace whence
