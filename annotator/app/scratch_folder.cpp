#include "annotator/app/scratch_folder.h"

#include <cstdlib>

#include "schema/files/temporary_names.h"

namespace whence::app {
namespace {

std::filesystem::path beside(const std::string& output) {
  const std::filesystem::path folder = std::filesystem::path(output).parent_path();
  return folder.empty() ? std::filesystem::path(".") : folder;
}

}  // namespace

ScratchFolder::ScratchFolder(const std::string& output) : seen_(beside(output)) {
  std::error_code ignored;
  const std::filesystem::path target(output);
  const bool device = std::filesystem::exists(target, ignored) && !std::filesystem::is_regular_file(target, ignored);
  path_ = (device ? std::filesystem::temp_directory_path() / ".whence-XXXXXX" : seen_ / ".whence-XXXXXX").string();
  if (mkdtemp(path_.data()) == nullptr) {
    throw Error(Code::cannot_write, "no folder can be made beside " + output,
                "check that the folder exists and may be written to", {.file = output, .stage = "write"});
  }
  remember_temporary(path_.c_str());
}

ScratchFolder::~ScratchFolder() {
  forget_temporary(path_.c_str());
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Diagnostics ScratchFolder::as_seen(Diagnostics diagnostics) const {
  for (Diagnostic& each : diagnostics) {
    for (std::string* text : {&each.message, &each.where.file, &each.remedy}) replace(*text);
  }
  return diagnostics;
}

void ScratchFolder::replace(std::string& text) const {
  const std::string seen = seen_ == "." ? "" : (seen_ / "").string(), hidden = path_ + "/";
  for (std::size_t at = 0; (at = text.find(hidden, at)) != std::string::npos; at += seen.size()) {
    text.replace(at, hidden.size(), seen);
  }
}

}  // namespace whence::app
