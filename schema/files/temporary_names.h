// The names of files and folders that are half done, kept where a signal handler can take them away: a process that
// crashes runs no destructor.
#pragma once

namespace whence {

// `path` must stay as it is until it is forgotten. Of more than 64 at a time the rest is not remembered.
void remember_temporary(const char* path);
void forget_temporary(const char* path);

// Removes the files, and the folders that are empty then. Allocates nothing and may be called by a signal handler.
void remove_temporaries();

}  // namespace whence
