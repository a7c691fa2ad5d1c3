#include "schema/files/scratch_folder.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schema/files/leftovers.h"
#include "schema/files/locks.h"
#include "schema/files/temporary_names.h"

namespace whence {
namespace {

namespace fs = std::filesystem;

fs::path parent_folder(const std::string& output) {
  const fs::path folder = fs::path(output).parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

// Opens the new folder and locks it. Returns -1 if a process that removes leftovers was faster.
int lock_new_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat status{};
  if (fd >= 0 && try_lock(fd) != LockResult::busy && ::fstat(fd, &status) == 0 && status.st_nlink > 0) return fd;
  if (fd >= 0) ::close(fd);
  ::rmdir(path.c_str());
  return -1;
}

}  // namespace

std::string temporary_path(const std::string& name) {
  std::error_code failed;
  const fs::path folder = fs::temp_directory_path(failed);
  return ((failed ? fs::path(".") : folder) / name).string();
}

ScratchFolder::ScratchFolder(const std::string& output) : folder_(parent_folder(output)) {
  std::error_code ignored;
  const bool device = fs::exists(output, ignored) && !fs::is_regular_file(output, ignored);
  const std::string folder = device ? fs::temp_directory_path(ignored).string() : folder_.string();
  remove_leftovers_once(folder);
  const PostponedStops until_remembered;
  for (int attempt = 0; fd_ < 0 && attempt < 100; ++attempt) {
    path_ = new_temporary_path(folder, temporary::folder);
    if (::mkdir(path_.c_str(), 0700) == 0) {
      fd_ = lock_new_folder(path_);
    } else if (errno != EEXIST) {
      break;
    }
  }
  if (fd_ < 0) {
    throw Error(Code::cannot_write, "cannot create a temporary folder next to " + output,
                "check that the folder exists and may be written to", {.file = output, .stage = "write"});
  }
  remember_temporary(path_.c_str());
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  forget_temporary(path_.c_str());
  ::close(fd_);
}

Diagnostics ScratchFolder::with_user_paths(Diagnostics diagnostics) const {
  for (Diagnostic& each : diagnostics) {
    for (std::string* text : {&each.message, &each.where.file, &each.remedy}) replace(*text);
  }
  return diagnostics;
}

void ScratchFolder::replace(std::string& text) const {
  const std::string beside_output = folder_ == "." ? "" : (folder_ / "").string(), scratch = path_ + "/";
  for (std::size_t at = 0; (at = text.find(scratch, at)) != std::string::npos; at += beside_output.size()) {
    text.replace(at, scratch.size(), beside_output);
  }
}

}  // namespace whence
