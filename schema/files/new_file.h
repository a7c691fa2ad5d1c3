// New files: made beside a target under a name of their own, locked, written and brought to the disk. For AtomicFile
// and UndoJournal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace whence {

constexpr std::size_t copied_at_once = std::size_t{1} << 30;  // bytes for one call into the kernel

// "." for a name without one.
std::string folder_of(const std::string& path);

// Throws Error(cannot_write) with a remedy for this errno.
[[noreturn]] void fail_to_write(const std::string& target, int error);

// Makes a file that did not exist, with the permissions that the user's umask leaves, and locks it where the file
// system can, so that no other process takes it for a dead one's. Returns -1 with errno.
int create_locked(const std::string& folder, std::string_view ending, std::string& created);

// Throw Error(cannot_write) with the target's name.
void write_all(int fd, const char* data, std::size_t size, const std::string& target);
void sync_file(int fd, const std::string& target);  // its content outlasts a loss of power

}  // namespace whence
