// Removes the files that killed runs left beside their targets.
#pragma once

#include <string>

namespace whence {

// Removes the temporary files and folders of dead processes from a folder, and undoes what one of them had begun to
// replace (undo_journal.h). What a living process holds stays, and so does all of it on a file system without locks.
// Errors are ignored: a temporary that stays does no harm.
void remove_leftovers(const std::string& folder);
void remove_leftovers_once(const std::string& folder);  // if this process has not done so

}  // namespace whence
