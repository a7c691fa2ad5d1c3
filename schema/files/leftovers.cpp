#include "schema/files/leftovers.h"

#include <filesystem>
#include <mutex>
#include <set>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schema/files/locks.h"
#include "schema/files/temporary_names.h"
#include "schema/files/undo_journal.h"

namespace whence {
namespace {

// Locks a temporary file or folder of a dead writer until the object is destroyed, so that no other process removes it.
class Leftover {
 public:
  Leftover(int folder, const std::string& name)
      : fd_(::openat(folder, name.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC)) {
    struct stat opened{}, named{};
    dead_ = fd_ >= 0 && ::fstat(fd_, &opened) == 0 && opened.st_uid == ::geteuid() &&
            (S_ISREG(opened.st_mode) || S_ISDIR(opened.st_mode)) && try_lock(fd_) == LockResult::acquired &&
            ::fstatat(folder, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_ino == opened.st_ino;
  }
  ~Leftover() {
    if (fd_ >= 0) ::close(fd_);
  }
  Leftover(const Leftover&) = delete;
  Leftover& operator=(const Leftover&) = delete;

  bool dead() const { return dead_; }

 private:
  int fd_;
  bool dead_ = false;
};

// Lists journals first: old files are restored before other leftovers are removed.
std::vector<std::string> temporaries_in(DIR* folder) {
  std::vector<std::string> journals, others;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (is_temporary_name(name, temporary::journal)) journals.emplace_back(name);
    for (const std::string_view ending : {temporary::file, temporary::folder, temporary::old_file}) {
      if (is_temporary_name(name, ending)) others.emplace_back(name);
    }
  }
  journals.insert(journals.end(), others.begin(), others.end());
  return journals;
}

void remove_leftovers(const std::string& folder, DIR* listing) {
  const std::vector<std::string> names = temporaries_in(listing);
  if (names.empty()) return;
  // Writers rename files and remove journals under this lock, so a journal that exists now has a dead writer.
  if (try_lock(::dirfd(listing)) == LockResult::busy) return;
  bool old_files_needed = false;
  for (const std::string& name : names) {
    if (old_files_needed && is_temporary_name(name, temporary::old_file)) continue;
    const Leftover leftover(::dirfd(listing), name);
    const bool journal = is_temporary_name(name, temporary::journal);
    old_files_needed |= journal && !leftover.dead();
    if (!leftover.dead()) continue;
    if (journal && !UndoJournal::undo_left(folder, name)) {
      old_files_needed = true;
      continue;
    }
    std::error_code ignored;
    std::filesystem::remove_all(std::filesystem::path(folder) / name, ignored);
  }
}

}  // namespace

void remove_leftovers(const std::string& folder) {
  if (is_draft_folder(folder)) return;
  DIR* const listing = ::opendir(folder.c_str());
  if (listing == nullptr) return;
  remove_leftovers(folder, listing);
  ::closedir(listing);
}

void remove_leftovers_once(const std::string& folder) {
  // Never destroyed: an unfinished recording is written while the process exits.
  static auto& lock = *new std::mutex;
  static auto& known = *new std::set<std::string>;
  {
    const std::scoped_lock locked(lock);
    if (!known.insert(folder).second) return;
  }
  remove_leftovers(folder);
}

}  // namespace whence
