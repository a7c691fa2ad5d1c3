#include "schema/files/output_files.h"

#include <filesystem>

#include "schema/files/paths.h"

namespace whence {

namespace fs = std::filesystem;

AtomicFile& OutputFiles::add(const std::string& target) {
  std::error_code ignored;
  const bool device = fs::exists(target, ignored) && !fs::is_regular_file(target, ignored);
  if (!device && !places_.insert(place_of(target)).second) {
    throw Error(Code::usage, "two outputs would be one file: " + target, "name another file for one of them",
                {.file = target, .stage = "write"});
  }
  return files_.emplace_back(target);
}

void OutputFiles::commit() {
  for (AtomicFile& file : files_) file.finish();
  std::size_t next = files_.size();
  try {
    while (next > 0) {
      AtomicFile& file = files_[--next];
      if (files_.size() > 1) file.keep_old();
      file.give_name();
    }
  } catch (const Error&) {
    for (; next < files_.size(); ++next) files_[next].put_back();
    throw;
  }
  files_.clear();
}

}  // namespace whence
