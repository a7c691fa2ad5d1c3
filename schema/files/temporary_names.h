// The names of files and folders that are half done. A process that crashes runs no destructor: its signal handler
// takes away what is remembered here. What a process leaves that was killed, a later one removes (leftovers.h).
#pragma once

#include <string>
#include <string_view>

namespace whence {

// `path` must stay as it is until it is forgotten. Of more than 64 at a time the rest is not remembered.
void remember_temporary(const char* path);
void forget_temporary(const char* path);

// Removes the files, and the folders with the files in them. Allocates nothing and may be called by a signal handler.
void remove_temporaries();

// Temporaries beside a target are called ".whence-PROCESS-NUMBER" and one of these endings.
namespace temporary {
constexpr std::string_view file = ".part";     // becomes the target
constexpr std::string_view folder = ".parts";  // for drafts
constexpr std::string_view old_file = ".old";  // a second name of a file that is replaced (undo_journal.h)
constexpr std::string_view journal = ".undo";
}  // namespace temporary

// A path in `folder` that this process has not used.
std::string new_temporary_path(const std::string& folder, std::string_view ending);
bool is_temporary_name(std::string_view name, std::string_view ending);
// True for a folder for drafts, of whence or of its Python package: nothing in it is needed after a crash.
bool is_draft_folder(const std::string& folder);

// While an object lives, the signals that end the command wait: files get their names, or one is made that nothing
// remembers yet.
class PostponedStops {
 public:
  PostponedStops();
  ~PostponedStops();
  PostponedStops(const PostponedStops&) = delete;
  PostponedStops& operator=(const PostponedStops&) = delete;

  static bool stop_waits();  // a signal came meanwhile
};
// For the handler of such a signal. True if it must return; the signal is raised again later.
bool postpone_stop(int signal);

}  // namespace whence
