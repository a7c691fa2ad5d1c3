// Names of temporary files and folders. A crash runs no destructors, so the signal handler removes the paths that are
// remembered here. Leftovers of a killed process are removed by a later process (leftovers.h).
#pragma once

#include <string>
#include <string_view>

namespace whence {

// Remembers up to 64 paths; further ones are ignored. `path` must stay valid until it is forgotten.
void remember_temporary(const char* path);
void forget_temporary(const char* path);

// Removes the remembered files, and the folders with their files. Allocates nothing, so signal handlers may call it.
void remove_temporaries();

// Temporary names are ".whence-PROCESS-NUMBER" with one of these endings.
namespace temporary {
constexpr std::string_view file = ".part";     // an output that will be renamed to its target
constexpr std::string_view folder = ".parts";  // a folder for drafts
constexpr std::string_view old_file = ".old";  // a backup of a replaced file (undo_journal.h)
constexpr std::string_view journal = ".undo";
}  // namespace temporary

// Returns a path in `folder` that this process has not used.
std::string new_temporary_path(const std::string& folder, std::string_view ending);
bool is_temporary_name(std::string_view name, std::string_view ending);
// True for a draft folder of whence or its Python package. Its files are not needed after a crash.
bool is_draft_folder(const std::string& folder);

// Postpones signals that would end the command while the object exists: while files are renamed, or a new file is not
// yet remembered.
class PostponedStops {
 public:
  PostponedStops();
  ~PostponedStops();
  PostponedStops(const PostponedStops&) = delete;
  PostponedStops& operator=(const PostponedStops&) = delete;

  static bool is_stop_pending();  // true if a signal was postponed
};
// For signal handlers. Returns true if the handler must return; the signal is raised again later.
bool postpone_stop(int signal);

}  // namespace whence
