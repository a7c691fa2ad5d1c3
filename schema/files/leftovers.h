// Removes the temporary files that killed processes left next to their targets.
#pragma once

#include <string>

namespace whence {

// Removes temporary files and folders of dead processes from a folder, and undoes their incomplete commits
// (undo_journal.h). Files of running processes stay, and on a file system without locks everything stays. Errors are
// ignored because leftovers are harmless.
void remove_leftovers(const std::string& folder);
void remove_leftovers_once(const std::string& folder);  // at most once for each folder in this process

}  // namespace whence
