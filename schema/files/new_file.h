// Creates temporary files next to a target, locks, writes and syncs them. For AtomicFile and UndoJournal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace whence {

constexpr std::size_t max_transfer = std::size_t{1} << 30;  // bytes for each system call

// Returns the folder of a path, "." if the path has none.
std::string folder_of(const std::string& path);

// Returns the remedy for a file that cannot be opened for reading, for this errno.
std::string remedy_for_reading(int error);

// Throws Error(cannot_write) with a remedy for this errno.
[[noreturn]] void fail_to_write(const std::string& target, int error);

// Creates a file with the permissions that the umask allows, and locks it if the file system can, so that no other
// process treats it as a leftover. Returns its descriptor, or -1 and sets errno.
int create_locked(const std::string& folder, std::string_view ending, std::string& created);

// Throw Error(cannot_write) with the target's name.
void write_all(int fd, const char* data, std::size_t size, const std::string& target);
void sync_file(int fd, const std::string& target);  // makes the content survive a power failure

}  // namespace whence
